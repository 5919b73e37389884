"""Running of tools in the process of a test, against a broker."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.docker.programs import TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from kafkalite.testing import Broker


class Result(NamedTuple):
    """The exit status of a tool, and its output."""

    status: int
    lines: list[str]
    error: str


class ToolRunner:
    """Runs tools against one broker."""

    def __init__(
        self,
        broker: Broker | None,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._broker = broker
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(
        self, name: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> Result:
        """Run a tool with these arguments."""
        self._capsys.readouterr()
        tool = import_module(f"kafkalite.docker.tools.{TOOLS[name]}")
        status = tool.main(name, arguments, environment or {})
        output = self._capsys.readouterr()
        return Result(status, output.out.splitlines(), output.err)

    def ask(self, name: str, *arguments: str) -> Result:
        """Run a tool with the address of the broker."""
        assert self._broker is not None
        servers = self._broker.bootstrap_servers
        return self.run(name, "--bootstrap-server", servers, *arguments)

    def ask_last(self, name: str, *arguments: str) -> Result:
        """Run a tool with the address of the broker as its last argument."""
        assert self._broker is not None
        servers = self._broker.bootstrap_servers
        return self.run(name, *arguments, "--bootstrap-server", servers)

    def send(self, text: str, *arguments: str) -> Result:
        """Run the producer with this standard input."""
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
        self._monkeypatch.setattr(sys, "stdin", stdin)
        return self.ask("kafka-console-producer", *arguments)
