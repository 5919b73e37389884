"""Exit statuses of tools."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.connection import UnreachableError
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.running import run_tool
from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ToolError("it failed"), 1, "tool: it failed\n"),
        (UnreachableError("no broker"), 1, "tool: no broker\n"),
        (KeyboardInterrupt(), 1, ""),
        (BrokenPipeError(), 0, ""),
        (PermissionError(13, "Permission denied", "/f"), 1, "tool: /f: permission denied\n"),
        (OSError("no text"), 1, "tool: no text\n"),
    ],
)
def test_failure_is_one_line(
    error: BaseException, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error

    assert run_tool("tool", fail) == status
    assert capsys.readouterr().err == text


def test_status_is_that_of_the_command() -> None:
    assert run_tool("tool", lambda: 3) == 3


def test_client_logs_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        "a.ScramLoginModule required username=alice password=secret;\n"
    )
    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        tools = ToolRunner(broker, capsys, monkeypatch)
        listed = tools.ask("kafka-topics", "--list", "--command-config", str(path))
        assert listed == (0, [], "")
        assert tools.ask("kafka-topics", "--list").status == 1


def test_output_without_a_reader_ends_silently(broker: Broker) -> None:
    read, write = os.pipe()
    os.close(read)
    program = (
        "import sys; from kafkalite.docker.programs import run_program; "
        "sys.exit(run_program('kafka-topics', sys.argv[1:], {}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--list", "--bootstrap-server", broker.bootstrap_servers],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
