"""The pytest plugin: its fixtures, and that it costs nothing where nobody uses them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = "pytester"

PLUGIN = "kafkalite.testing.plugin"
ROOT = Path(__file__).parents[3]


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    # Where kafkalite is installed, pytest has loaded the plugin by itself.
    installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    load = () if installed else ("-p", PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return pytester.runpytest_subprocess("-p", "no:randomly", *load)


def test_a_broker_for_each_test_and_one_for_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_first(kafkalite, kafkalite_session):
            seen.append((kafkalite.cluster_id, kafkalite_session.cluster_id))
            assert kafkalite.bootstrap_servers != kafkalite_session.bootstrap_servers

        def test_second(kafkalite, kafkalite_session):
            (own, shared), = seen
            assert kafkalite.cluster_id != own
            assert kafkalite_session.cluster_id == shared
        """
    )
    run(pytester, monkeypatch).assert_outcomes(passed=2)


def test_loading_the_plugin_imports_no_broker() -> None:
    program = f"import sys, {PLUGIN}; print(*[m for m in sys.modules if m.startswith('kafkalite')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["kafkalite", "kafkalite.testing", PLUGIN]
