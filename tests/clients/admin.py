"""The Java Admin client's sweep: every call it can make on us, and what came back, as data."""

from __future__ import annotations

import json
import subprocess
from typing import TypeAlias, cast

from tests.clients.roster import java_classes
from tests.oracle.jars import java_command

Answer: TypeAlias = "str | int | bool | list[Answer] | dict[str, Answer] | None"

_TIMEOUT_S = 120.0


def admin_sweep(bootstrap: str) -> dict[str, Answer]:
    """Run `java/AdminSweep.java` against a broker; gives its answers by the call's name."""
    command = java_command("AdminSweep", bootstrap, classes=java_classes(), log_level="off")
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return cast("dict[str, Answer]", json.loads(done.stdout))
