"""Running of commands in the process of a test."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


class Result(NamedTuple):
    """The exit status of a command, and its output."""

    status: int
    output: str
    error: str

    @property
    def lines(self) -> list[str]:
        """The lines of the output."""
        return self.output.splitlines()

    @property
    def cells(self) -> list[list[str]]:
        """The words of each line of the output."""
        return [line.split() for line in self.lines]

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        """The output as JSON."""
        return json.loads(self.output)


class Shell:
    """Runs commands against one cluster."""

    def __init__(
        self,
        servers: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._servers = servers
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(self, *arguments: str, text: str | bytes = "") -> Result:
        """Run a command with the address of the cluster, and with this standard input."""
        return self.run_alone([*arguments, "--bootstrap-server", self._servers], text)

    def run_alone(self, arguments: Sequence[str], text: str | bytes = "") -> Result:
        """Run a command without the address of the cluster."""
        data = text.encode() if isinstance(text, str) else text
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
        self._monkeypatch.setattr(sys, "stdin", stdin)
        self._capsys.readouterr()
        status = 0
        try:
            main(arguments)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 0
        output = self._capsys.readouterr()
        return Result(status, output.out, output.err)
