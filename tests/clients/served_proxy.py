"""The recording proxy as a process, started by its command."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.clients.client_libraries import driver_environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.oracle.target import Target

_ADDRESS = re.compile(r"at 127\.0\.0\.1:(\d+)")
_STOP_TIMEOUT_S = 20.0


class ServedProxy:
    """`python -m kafkalite capture` in front of a broker; its files are in `captures`.

    Clients use it as a broker; the real broker can restart behind it.
    """

    def __init__(self, upstream: Target, directory: Path, options: Sequence[str] = ()) -> None:
        self.name = f"{upstream.name} by proxy"
        self.port = 0
        self.captures = directory / "captures"
        self.summary = ""
        """Its output when it ended."""
        self._upstream = upstream
        self._options = options
        self._log = directory / "proxy.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def upstream_port(self) -> int:
        """Return the port of the broker behind it, or of the first of several."""
        return self._upstream.port

    @property
    def data(self) -> Path:
        """Return the directory that holds a directory for every partition."""
        return self._upstream.data

    def open(self) -> None:
        """Start the proxy and wait for the line with its address."""
        command = [sys.executable, "-m", "kafkalite", "capture", str(self.captures)]
        command += ["--upstream", self._upstream.bootstrap, "--listen", "127.0.0.1:0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=driver_environment(),
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        match = _ADDRESS.search(line)
        assert match is not None, f"{line}{self.log()}"
        self.port = int(match[1])

    def close(self) -> None:
        """Stop it as Ctrl-C does, and store its output."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGINT)
        try:
            self.summary, _ = process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, self.log()

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start the broker behind it."""
        self._upstream.start()

    def stop(self) -> None:
        """Stop the broker behind it."""
        self._upstream.stop()

    def kill(self) -> None:
        """Kill the broker behind it."""
        self._upstream.kill()
