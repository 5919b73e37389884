"""Runs every call of the Java Admin client; the results are data."""

from __future__ import annotations

import json
import subprocess
from typing import TypeAlias, cast

from tests.clients.client_libraries import java_classes
from tests.oracle.jars import java_command

Answer: TypeAlias = "str | int | bool | list[Answer] | dict[str, Answer] | None"

_TIMEOUT_S = 120.0


def admin_sweep(bootstrap: str) -> dict[str, Answer]:
    """Run `java/AdminSweep.java` against a broker; return the results by the call's name."""
    command = java_command("AdminSweep", bootstrap, classes=java_classes(), log_level="off")
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    return cast("dict[str, Answer]", json.loads(completed.stdout))
