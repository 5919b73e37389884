"""The messages of parallel runs: the results are those of a run in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance  # it starts pytest with two processes

SETTINGS = "from tests.parallel_runs import register as pytest_configure\n"
TESTS = """
import os
import pytest

@pytest.fixture
def failing_teardown():
    yield
    assert False

def test_passed(): pass
def test_failed(): assert False
def test_skipped(): pytest.skip()
@pytest.mark.xfail
def test_expected(): assert False
def test_passed_before_its_teardown(failing_teardown): pass
"""
CRASHING = """
import os

def test_before(): pass
def test_crashing(tmp_path_factory):
    mark = tmp_path_factory.getbasetemp().parent / "crashed"
    if not mark.exists():
        mark.touch()
        os._exit(1)
def test_after(): pass
"""
RESULTS = {
    "PASSED": {"test_passed", "test_passed_before_its_teardown", "test_before", "test_after"}
    | {"test_crashing"},
    "FAILED": {"test_failed", "test_crashing"},
    "ERROR": {"test_passed_before_its_teardown"},
    "XFAIL": {"test_expected"},
}


@pytest.mark.parametrize("options", [[], ["--durations=0"]], ids=["short", "long"])
def test_every_result_is_reported(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (tmp_path / "conftest.py").write_text(SETTINGS)
    (tmp_path / "test_results.py").write_text(TESTS)
    (tmp_path / "test_crash.py").write_text(CRASHING)
    command = [sys.executable, "-m", "pytest", "-n2", "--dist", "loadfile", "-rA", *options]
    without = ["-p", "no:asyncio", "-p", "no:kafkalite"]
    done = subprocess.run(
        [*command, *without], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    for result, names in RESULTS.items():
        found = re.findall(rf"^{result} \S+?::(\w+)", done.stdout, re.MULTILINE)
        assert sorted(found) == sorted(names), done.stdout
    assert re.search(r"2 failed, 5 passed, 1 skipped, 1 xfailed, 1 error", done.stdout), done.stdout
