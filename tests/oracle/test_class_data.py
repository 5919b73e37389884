"""JVMs load the classes of Kafka from an archive."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.oracle.jars import SHORT_LIVED, java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance

_USED_CLASS = "org.apache.kafka.common.Uuid"


def test_a_tool_with_further_classes_is_loaded_from_the_archive(tmp_path: Path) -> None:
    (tmp_path / "Further.class").write_bytes(b"")
    flags = (*SHORT_LIVED, "-Xlog:class+load")
    with required():
        command = java_command(
            "kafka.tools.StorageTool", "random-uuid", classes=tmp_path, flags=flags
        )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    (loaded,) = (line for line in done.stdout.splitlines() if f" {_USED_CLASS} source:" in line)
    assert "shared objects file" in loaded, loaded
