"""`kafka-server-stop`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from kafkalite.docker.tools import server_stop

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.docker.tools.tool import ToolRunner


def test_brokers_get_a_signal(
    tmp_path: Path, offline_tools: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, words in (
        (1, ("python3", "/usr/local/bin/kafkalite-entrypoint")),
        (2, ("/usr/bin/python3", "/opt/kafka/bin/kafka-server-start.sh", "a")),
        (3, ("python3", "/opt/kafka/bin/kafka-topics.sh", "--list")),
        (4, ("sh", "/run.sh")),
        (os.getpid(), ("python3", "/run.sh")),
    ):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_text("\0".join(words) + "\0")
    (tmp_path / "5").mkdir()
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(server_stop, "_PROCESSES", tmp_path)
    monkeypatch.setattr(os, "kill", lambda *call: killed.append(call))
    assert offline_tools.run("kafka-server-stop") == (0, [], "")
    assert sorted(killed) == [(1, signal.SIGTERM), (2, signal.SIGTERM)]


def test_a_container_without_a_broker_is_an_error(
    tmp_path: Path, offline_tools: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_stop, "_PROCESSES", tmp_path)
    assert offline_tools.run("kafka-server-stop") == (1, ["No kafka server to stop"], "")
