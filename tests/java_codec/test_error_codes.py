"""Our error codes are Kafka's: the same numbers, names, and the same ones worth a retry."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from kafkalite.protocol.error_codes import ErrorCode
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import program, required

_JUDGE: Final = Path(__file__).parent / "judge"


def test_codes_names_and_retries_are_kafkas() -> None:
    with required():
        program("java")
        command = java_command("ErrorCodes", classes=compiled(_JUDGE), log_level="off")
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    theirs = [line.split("\t") for line in printed.splitlines()]
    ours = [[str(int(code)), code.name, str(code.retriable).lower()] for code in ErrorCode]
    assert ours == theirs
