"""Importing modules in steps, and the steps of all coordinators."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports import turns
from kafkalite.ports.module_steps import ModuleSteps

if TYPE_CHECKING:
    from pathlib import Path

MOST_MODULES_OF_A_STEP = 12
"""More modules would delay other requests by more than 10 ms on a slow machine."""

_PROGRAM = """
import json, sys
import kafkalite.cli.main, kafkalite.server.broker
from importlib import import_module
from kafkalite.apis.table import find_api
from kafkalite.ports import turns
from kafkalite.protocol import codec

apis, module, name = sys.argv[1].split(), sys.argv[2], sys.argv[3]
for key in codec.api_keys():
    if codec.api_name(key) in apis:
        find_api(key)
steps = getattr(import_module(module), name)
counts = [len(sys.modules)]
turns.pause = lambda: counts.append(len(sys.modules))
steps.load()
loaded = [after - before for before, after in zip(counts, counts[1:])]
print(json.dumps([steps.names, loaded, steps.are_loaded()]))
"""


@pytest.mark.parametrize(
    ("apis", "module", "name"),
    [
        ("FindCoordinator", "kafkalite.groups.shard_modules", "SHARD_MODULES"),
        ("FindCoordinator", "kafkalite.transactions.shard_modules", "SHARD_MODULES"),
        (
            "FindCoordinator ShareGroupHeartbeat",
            "kafkalite.apis.shares.groups",
            "MODULES_OF_FIRST_MEMBER",
        ),
    ],
)
def test_each_step_loads_a_few_modules(apis: str, module: str, name: str) -> None:
    arguments = [sys.executable, "-c", _PROGRAM, apis, module, name]
    completed = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    names, loaded, are_loaded = json.loads(completed.stdout)
    by_step = dict(zip(names, loaded, strict=True))
    assert {step: count for step, count in by_step.items() if count > MOST_MODULES_OF_A_STEP} == {}
    assert all(by_step.values()), f"a step without modules is superfluous: {by_step}"
    assert are_loaded


def test_modules_are_imported_once_with_a_pause_after_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import kafkalite  # noqa: PLC0415 - its path is changed

    package = tmp_path / "stepped"
    package.mkdir()
    for name in ("__init__", "first", "second"):
        (package / f"{name}.py").touch()
    monkeypatch.setattr(kafkalite, "__path__", [*kafkalite.__path__, str(tmp_path)])
    pauses: list[bool] = []
    steps = ModuleSteps("stepped.first", "stepped.second")
    ends: list[int] = []
    monkeypatch.setattr(turns, "pause", lambda: pauses.append(steps.names[1] in sys.modules))
    monkeypatch.setattr(turns, "end_turn", lambda: ends.append(len(pauses)))
    assert not steps.are_loaded()
    steps.load()
    steps.load()
    assert pauses == [False, True]
    assert ends == [0, 2]
    assert steps.are_loaded()
