"""`ServedKafkalite`: the `serve` command in a separate process."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.oracle.target import COMMON_CONFIG, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(rb"127\.0\.0\.1:(\d+)")
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0


class ServedKafkalite:
    """`python -m kafkalite serve` with a fixed data directory and port."""

    name = "kafkalite"

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, str] = COMMON_CONFIG,
        *,
        brokers: int = 1,
        control: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.port = free_port(brokers)
        self._control_port = free_port() if control else None
        self._brokers = brokers
        self._directory = directory
        self._config = config
        self._options = options
        self._log = directory / "kafkalite.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Return the directory that holds a directory for every partition."""
        return self._directory / "data"

    @property
    def control_url(self) -> str:
        """Return the address of the control API, if it has one."""
        assert self._control_port is not None
        return f"http://127.0.0.1:{self._control_port}"

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None
        return self._process.pid

    def configure(self, config: Mapping[str, str]) -> None:
        """Use other settings from the next start on."""
        self._config = config

    def start(self) -> None:
        """Start the broker and wait for the line that names its address."""
        self.launch()
        assert self._process is not None
        assert self._process.stdout is not None
        self.port = self._announced_port(self._process.stdout)

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        self._directory.mkdir(parents=True, exist_ok=True)
        data = str(self.data)
        command = [sys.executable, "-m", "kafkalite", "serve"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--data-dir", data]
        command += ["--brokers", str(self._brokers)]
        if self._control_port is not None:
            command += ["--control", f"127.0.0.1:{self._control_port}"]
        command += self._options
        for key, value in self._config.items():
            command += ["--config", f"{key}={value}"]
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def stop(self) -> None:
        """Stop by SIGTERM; it must end within two seconds with exit status 0."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            _close(process)
        assert status == 0, f"exit status {status}: {self.log_tail()}"

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            _close(self._process)
            self._process = None

    def log_tail(self) -> str:
        """Return the end of the broker's log."""
        return self._log.read_text(errors="replace")[-2000:]

    def _announced_port(self, stdout: IO[bytes]) -> int:
        output = b""
        deadline = time.monotonic() + _START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline and selector.select(deadline - time.monotonic()):
                chunk = os.read(stdout.fileno(), 4096)
                output += chunk
                match = _ADDRESS.search(output)
                if match and output[match.end() :]:
                    return int(match[1])
                if not chunk:
                    break
        self.kill()
        raise AssertionError(f"no address from kafkalite: {output!r} {self.log_tail()}")


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None:
        process.stdout.close()
