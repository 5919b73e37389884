"""Checks of a user: commands and functions, and what they find."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.sweep.checks import (
    CheckError,
    CommandCheck,
    FunctionCheck,
    check_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NO_CLUSTER: Any = None
MODULE = """
def passes(cluster): ...

def fails(cluster):
    assert False, "2 bills of 3\\nfor the shop"

def exits(cluster):
    raise SystemExit("2 bills of 3")

async def waits(cluster): ...

LIMIT = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module in the present directory."""
    (tmp_path / "own_checks.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "broken_checks.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "script_checks.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "own_checks", raising=False)
    return "own_checks"


def found_by(words: Sequence[str]) -> tuple[str, str] | None:
    check = check_of(words)
    assert check is not None
    found = check.problem(NO_CLUSTER, {}, 60)
    check.stop()
    return None if found is None else (found.text, found.output)


def test_a_check_is_a_command_or_a_function(module: str) -> None:
    assert check_of(()) is None
    assert isinstance(check_of((f"{module}:passes",)), FunctionCheck)
    assert isinstance(check_of(("check.sh",)), CommandCheck)
    assert isinstance(check_of(("check.sh", f"{module}:passes")), CommandCheck)


def test_a_function_fails_by_an_exception(module: str) -> None:
    assert found_by((f"{module}:passes",)) is None
    assert found_by((f"{module}:fails",)) == (
        "the check failed: AssertionError: 2 bills of 3",
        "AssertionError: 2 bills of 3\nfor the shop",
    )
    assert found_by((f"{module}:exits",)) == (
        "the check failed: SystemExit: 2 bills of 3",
        "SystemExit: 2 bills of 3",
    )


def test_a_command_fails_by_its_exit_status() -> None:
    python = (sys.executable, "-ISc")
    assert found_by((*python, "pass")) is None
    text = "print('counting', flush=True); raise SystemExit('3 bills')"
    assert found_by((*python, text)) == (
        "the check failed (exit status 1): 3 bills",
        "counting\n3 bills",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own_checks:absent", "the module own_checks has no function absent"),
        ("own_checks:LIMIT", "the module own_checks has no function LIMIT"),
        ("own_checks:waits", "the function is a coroutine function; it must not be async"),
        ("no_checks:passes", "cannot import no_checks: No module named 'no_checks'"),
        ("broken_checks:passes", "cannot import broken_checks: division by zero"),
        ("script_checks:passes", "cannot import script_checks: it ends the process"),
    ],
)
@pytest.mark.usefixtures("module")
def test_a_function_that_does_not_exist_is_refused(name: str, text: str) -> None:
    with pytest.raises(CheckError) as refused:
        check_of((name,))
    assert str(refused.value) == f"--check {name}: {text}"
