"""The interface of brokers under test: start, stop and restart on the same data."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Settings of both brokers in addition to kafkalite's defaults, for fast rebalances and restarts.
# All other settings have Kafka's defaults, so that different defaults are found.
COMMON_CONFIG: Mapping[str, str] = {
    "num.partitions": "6",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    # Test records are older than the default retention, and a real Kafka would delete them during a
    # test: its first check is made 30 s after the start.
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}

NO_FEATURES: Mapping[str, str] = {}
"""Every feature at the level that a new cluster has."""

_PORTS = (20_000, 32_000)


class Target(Protocol):
    """One broker with a fixed port and data directory."""

    name: str
    port: int

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, `host:port`."""

    @property
    def data(self) -> Path:
        """Return the directory that holds a directory for every partition."""

    def start(self) -> None:
        """Start, and return when requests are answered."""

    def stop(self) -> None:
        """Stop cleanly and wait for the end."""

    def kill(self) -> None:
        """End the process at once, as at the end of a test run."""


def restart(target: Target) -> None:
    """Stop a broker and start it again on the same port and data."""
    target.stop()
    target.start()


def free_port(count: int = 1) -> int:
    """Find a free TCP port that is followed by `count` - 1 free ones.

    The port is below the range that systems use for outgoing connections. A client that reconnects
    to a stopped broker uses the ports of that range one by one. If the client used the broker's
    port, it would connect to itself, and the broker could not listen on its port again.
    """
    while True:
        first = random.SystemRandom().randrange(*_PORTS)  # independent of the test run's seed
        if all(_is_free(first + step) for step in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
