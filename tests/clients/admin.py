"""Runs the calls of the Java Admin client; the results are data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias, TypedDict, cast

from tests.clients.client_libraries import driver_environment, franz_go_worker
from tests.oracle.jars import compiled, java_command

Answer: TypeAlias = "str | int | float | bool | list[Answer] | dict[str, Answer] | None"

_PROGRAMS = Path(__file__).parent / "java_admin"
_TIMEOUT_S = 240.0


class Cell(TypedDict):
    """One cell of a scoreboard: the called methods with the options that were set, and the answer.

    A cell may call several methods. The answer has an exception as a dictionary with the key
    `error`.
    """

    calls: dict[str, list[str]]
    answer: Answer


class Sweep(TypedDict):
    """The calls of one client to one broker."""

    surface: dict[str, list[str]]
    """Every public method of the client, and its options."""
    cells: dict[str, Cell]


def run_sweep(command: list[str], environment: dict[str, str] | None = None) -> Sweep:
    """Run a program that prints a sweep."""
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    return cast("Sweep", json.loads(completed.stdout))


def python_sweep(module: str, bootstrap: str) -> Sweep:
    """Run a program of `drivers/` that calls the admin client of a Python library."""
    command = [sys.executable, "-m", f"tests.clients.drivers.{module}", bootstrap]
    return run_sweep(command, driver_environment())


def admin_sweep(bootstrap: str, *addresses: str) -> Sweep:
    """Run `java_admin/AdminSweep.java` against a broker.

    The addresses of a listener with SASL and of a controller add the calls that need them, and
    those of an administrator.
    """
    arguments = [bootstrap, *addresses]
    classes = compiled(_PROGRAMS)
    return run_sweep(java_command("AdminSweep", *arguments, classes=classes, log_level="off"))


def franz_go_sweep(bootstrap: str, sasl: str) -> Sweep:
    """Run `go/admin.go` against a broker; delegation tokens need the address for SASL."""
    return run_sweep([*franz_go_worker(), "admin", bootstrap, sasl])
