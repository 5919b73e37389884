"""The settings of pytest: each test runs in exactly one step of `.ci/run`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.file_selection import can_have_selected_tests
from tests.grouped_files import group_of
from tests.slow_files import SLOW_FILES

if TYPE_CHECKING:
    from pathlib import Path

BY_HAND = {"spark", "endurance"}
"""The markers of the tests that take too long for `.ci/run`."""
LEVELS: list[set[str]] = [set(), {"spark"}, {"endurance"}, BY_HAND, {"container"}]
"""The markers that a test may have."""


def selections() -> list[str]:
    """Return the marker expression of each pytest command: the default and those of `.ci/run`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    default = project["tool"]["pytest"]["ini_options"]["addopts"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [
        line for line in script.splitlines() if ".venv/bin/pytest -m" in line and "#" not in line
    ]
    return re.findall(r"-m '([^']+)'", "\n".join([default, *commands]))


def test_every_slow_file_exists_and_is_named_once() -> None:
    assert [name for name in SLOW_FILES if not (ROOT / name).is_file()] == []
    assert len({*SLOW_FILES}) == len(SLOW_FILES)


def test_files_with_the_kafka_of_a_process_are_one_group() -> None:
    folder = ROOT / "tests" / "conformance"
    using = {
        f"tests/conformance/{path.name}"
        for path in folder.glob("test_*.py")
        if re.search(r"\breal_kafka[,:]", path.read_text(encoding="utf-8"))
    }
    assert {file for file in using if group_of(file) != "real_kafka"} == set()
    others = {f"tests/conformance/{path.name}" for path in folder.glob("test_*.py")} - using
    assert {file for file in others if group_of(file) == "real_kafka"} == set()


def test_each_test_runs_in_one_step() -> None:
    expressions = selections()
    assert len(expressions) == 4
    for level in LEVELS:
        markers = {name: name in level for name in ("spark", "endurance", "container")}
        steps = sum(eval(expression, markers.copy()) for expression in expressions)  # noqa: S307 - our own text
        assert steps == (0 if level == BY_HAND else 1), level


@pytest.mark.parametrize(
    ("source", "selecting"),
    [
        ("", "default"),
        ("pytestmark = pytest.mark.client", "default"),
        ("pytestmark = pytest.mark.endurance", "long"),
        ("pytestmark = [pytest.mark.client, pytest.mark.oracle]", "long"),
        ("pytestmark = [\n    pytest.mark.oracle,\n    pytest.mark.spark,\n]", ""),
        ("@pytest.mark.endurance", "default long"),
        ("pytest.param(1, marks=pytest.mark.oracle)", "default long"),
        ("@pytest.mark.spark", "default spark"),
        ("pytestmark = pytest.mark.container", "container"),
    ],
)
def test_files_are_imported_if_the_expression_can_select_their_tests(
    source: str, selecting: str
) -> None:
    runs = dict(zip(("default", "container", "spark", "long"), selections(), strict=True))
    assert {*selecting.split()} == {
        name
        for name, expression in runs.items()
        if can_have_selected_tests(source, expression, is_of_pipeline=False)
    }


def test_settings_work_without_the_plugins_of_the_project(tmp_path: Path) -> None:
    """Users save their first test in the clone, and their environment may have pytest only."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (tmp_path / "test_first.py").write_text("def test_first() -> None:\n    pass\n")
    without = ["-p", "no:asyncio", "-p", "no:timeout", "-p", "no:kafkalite"]
    command = [sys.executable, "-m", "pytest", *without, "test_first.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
