"""A broker under test, whichever it is: started, stopped and started again on its data."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What both brokers are told beyond kafkalite's preset, so that groups move at once and a restart
# is quick.  Everything else stays at Kafka's defaults: a default that differs is a finding.
COMMON_CONFIG: Mapping[str, str] = {
    "num.partitions": "6",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}

NO_FEATURES: Mapping[str, str] = {}
"""Every feature at the level that a new cluster has."""

_PORTS = (20_000, 32_000)


class Target(Protocol):
    """One broker on a port and a data directory that it keeps for its whole life."""

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
    """Find a TCP port that nobody listens on, with `count` - 1 free ones behind it.

    It lies below the ports that systems give to outgoing connections.  A client that tries to
    reach a broker that is down takes those one after the other, and if the broker's own came up,
    it would be connected to itself and the broker could not have its port back.
    """
    while True:
        first = random.SystemRandom().randrange(*_PORTS)  # whatever seed a test run has
        if all(_is_free(first + step) for step in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
