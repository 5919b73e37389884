"""The brokers that are compared, each started as its users would start it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.real_kafka import PRODUCTION_FLAGS, RealKafka
from tests.oracle.requirements import UnavailableError, program
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import free_port
from tests.perf.first_answer import wait_for_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KFAKE_SOURCES = Path(__file__).parent / "kfake"
_START_TIMEOUT_S = 60.0

# Both brokers get the same settings where Kafka's default would only slow down a benchmark.
CONFIG: Mapping[str, str] = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "5",
    "group.consumer.assignment.interval.ms": "0",
}


class Competitor(Protocol):
    """One broker process."""

    name: str
    port: int

    @property
    def pid(self) -> int:
        """Return the id of the running process."""

    def launch(self) -> None:
        """Start the process without waiting for anything."""

    def kill(self) -> None:
        """Kill the process."""

    def log_tail(self) -> str:
        """Return the end of the log of the broker."""


class Kfake:
    """franz-go's in-memory Kafka, built from the Go module proxy."""

    name = "kfake"

    def __init__(self, pem: str | None = None) -> None:
        """`pem` is the file with the broker's key and certificates, for TLS."""
        self.port = free_port()
        self._pem = pem
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        command = [str(kfake_program()), "--port", str(self.port)]
        if self._pem is not None:
            command += ["--tls", self._pem]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return nothing: kfake does not log."""
        return ""


def kfake_program() -> Path:
    """Build kfake; raises MissingProgramError if Go is not installed."""
    go = program("go")
    sources = [_KFAKE_SOURCES / name for name in ("main.go", "go.mod", "go.sum")]

    def build(directory: Path) -> None:
        run_build(
            [go, "build", "-C", str(_KFAKE_SOURCES), "-o", str(directory / "kfake"), "."], directory
        )

    return build_once("kfake", sources, build) / "kfake"


def broker_factories(directory: Path) -> dict[str, Callable[[], Competitor]]:
    """Return a factory for each broker; every broker starts with an empty data directory."""
    numbers = iter(range(1_000_000))

    def kafkalite() -> Competitor:
        return ServedKafkalite(directory / f"kafkalite-{next(numbers)}", CONFIG)

    def kafka() -> Competitor:
        broker = RealKafka(
            directory / f"kafka-{next(numbers)}", CONFIG, heap="1g", flags=PRODUCTION_FLAGS
        )
        broker.prepare()
        return broker

    return {"kafkalite": kafkalite, "kafka": kafka, "kfake": Kfake}


def start(broker: Competitor) -> float:
    """Start a broker; returns the seconds from process start to the first response."""
    started = time.perf_counter()
    broker.launch()
    if not wait_for_answer(broker.port, started + _START_TIMEOUT_S):
        broker.kill()
        raise UnavailableError(
            f"{broker.name} did not answer within {_START_TIMEOUT_S:.0f} s: {broker.log_tail()}"
        )
    return time.perf_counter() - started
