"""Our error codes equal Kafka's: numbers, names, and whether they are retriable."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import program, required

pytestmark = pytest.mark.endurance

_JAVA: Final = Path(__file__).parent / "java"
_FIRST_OWN_CODE: Final = 10_000
"""Codes from this one on belong to kafkalite."""


def test_codes_names_and_retriability_equal_kafka() -> None:
    with required():
        program("java")
        command = java_command("ErrorCodes", classes=compiled(_JAVA), log_level="off")
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    expected = [line.split("\t") for line in printed.splitlines()]
    codes = [
        [str(int(code)), code.name, str(code.retriable).lower()]
        for code in ErrorCode
        if code < _FIRST_OWN_CODE
    ]
    assert codes == expected
