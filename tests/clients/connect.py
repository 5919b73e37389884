"""Kafka Connect as its users run it: distributed workers, driven through their REST API."""

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
# What it does about zombies a worker tells at this level only.
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
    # So that a worker that was killed is missed soon, and what it ran goes to another at once.
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "rebalance.timeout.ms": "10000",
    "worker.sync.timeout.ms": "2000",
    "worker.unsync.backoff.ms": "500",
    "task.shutdown.graceful.timeout.ms": "1000",
}


class Worker:
    """One `connect-distributed` process; it keeps its port, and its log goes on in one file."""

    def __init__(self, bootstrap: str, directory: Path, name: str) -> None:
        self.port = free_port()
        self.log = directory / f"{name}.log"
        self.is_awake = False
        self._bootstrap = bootstrap
        self._properties = directory / f"{name}.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._opener = build_opener(ProxyHandler({}))  # straight to the worker

    @property
    def address(self) -> str:
        """Return `host:port`, which is also how the other workers name this one."""
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start the process without waiting for anything."""
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
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.is_awake = True

    def freeze(self) -> None:
        """Stop the worker in the middle of what it does; to all others it is as if it were dead."""
        assert self._process is not None
        self.is_awake = False
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen worker go on as if nothing had been."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.is_awake = True

    def kill(self) -> None:
        """End the worker without a word."""
        self.is_awake = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def has_said(self, pattern: bytes, since: int = 0) -> bool:
        """Tell whether its log has such words, from a place in it on."""
        return re.search(pattern, self.log.read_bytes()[since:]) is not None

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Make one REST call; gives what came back, None if that was nothing."""
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
        """Wait until the worker is a member of the group and answers of connectors."""
        self.insist("GET", "/connectors", timeout_s=_START_TIMEOUT_S)

    def insist(
        self, method: str, path: str, body: object = None, timeout_s: float = _START_TIMEOUT_S
    ) -> Any:  # noqa: ANN401 - JSON
        """Make a REST call until it is answered: during a rebalance the answer is a conflict."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask(method, path, body)
            except (HTTPError, URLError, HTTPException, OSError) as refusal:
                if time.monotonic() > deadline:
                    last_words = self.log.read_text(errors="replace")[-3000:]
                    raise AssertionError(f"{method} {path}: {refusal}\n{last_words}") from None
                if isinstance(refusal, HTTPError):
                    refusal.close()
            time.sleep(0.1)
