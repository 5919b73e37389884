"""Kafka Connect with distributed workers, controlled through their REST API."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from tests.oracle.jars import SHORT_LIVED, java_command
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GROUP = "connect"
CONFIGS, OFFSETS, STATUSES = "connect-configs", "connect-offsets", "connect-statuses"
OFFSET_PARTITIONS = 3

_START_TIMEOUT_S = 120.0
_REST_TIMEOUT_S = 60.0
# A worker logs the fencing of zombies only at this level.
_LOGGED_CLASS = "org.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.Worker"
_SETTINGS: Mapping[str, str] = {
    "group.id": GROUP,
    "exactly.once.source.support": "enabled",
    "config.storage.topic": CONFIGS,
    "config.storage.replication.factor": "1",
    "offset.storage.topic": OFFSETS,
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": str(OFFSET_PARTITIONS),
    "status.storage.topic": STATUSES,
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    # A killed worker is detected soon, and its tasks move to another at once.
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "rebalance.timeout.ms": "10000",
    "worker.sync.timeout.ms": "2000",
    "worker.unsync.backoff.ms": "500",
    "task.shutdown.graceful.timeout.ms": "1000",
}


class Worker:
    """One `connect-distributed` process; port and log file stay the same after a restart.

    Its jars are those of the pinned release, or of `jar_path`. Maven Central has no connectors of
    Kafka 4.4, so a worker of 4.4 runs those of 4.3.
    """

    def __init__(
        self, bootstrap: str, directory: Path, name: str, *, jar_path: str | None = None
    ) -> None:
        self.port = free_port()
        self.log = directory / f"{name}.log"
        self.is_running = False
        self._bootstrap = bootstrap
        self._jar_path = jar_path
        self._properties = directory / f"{name}.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._opener = build_opener(ProxyHandler({}))  # without an HTTP proxy

    @property
    def address(self) -> str:
        """Return `host:port`; other workers use this address too."""
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start the process without waiting."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "listeners": f"http://{self.address}",
            **_SETTINGS,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._properties),
            log_level="info",
            flags=(*SHORT_LIVED, f"-D{_LOGGED_CLASS}=debug"),
            jar_path=self._jar_path,
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.is_running = True

    def freeze(self) -> None:
        """Stop the process with a signal; to others the worker seems dead."""
        assert self._process is not None
        self.is_running = False
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a stopped process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.is_running = True

    def kill(self) -> None:
        """Kill the process."""
        self.is_running = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def has_printed(self, pattern: bytes, since: int = 0) -> bool:
        """Return whether its log matches a pattern after a position."""
        return re.search(pattern, self.log.read_bytes()[since:]) is not None

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Make one REST call; return its result, None if it is empty."""
        request = Request(
            f"http://{self.address}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with self._opener.open(request, timeout=_REST_TIMEOUT_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait_until_ready(self) -> None:
        """Wait until the worker is in the group and answers requests about connectors."""
        self.ask_until_success("GET", "/connectors", timeout_s=_START_TIMEOUT_S)

    def ask_until_success(
        self, method: str, path: str, body: object = None, timeout_s: float = _START_TIMEOUT_S
    ) -> Any:  # noqa: ANN401 - JSON
        """Repeat a REST call until it succeeds: during a rebalance the response is a conflict."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask(method, path, body)
            except (HTTPError, URLError, HTTPException, OSError) as refusal:
                if time.monotonic() > deadline:
                    log_tail = self.log.read_text(errors="replace")[-3000:]
                    raise AssertionError(f"{method} {path}: {refusal}\n{log_tail}") from None
                if isinstance(refusal, HTTPError):
                    refusal.close()
            time.sleep(0.1)
