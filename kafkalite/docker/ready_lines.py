"""Lines that Kafka logs when it has started, for programs that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

_LINES: Final = (
    "Creating new log file",
    "[BrokerServer id={node}] Transitioning from RECOVERY to RUNNING",
    "[KafkaServer id={node}] started (kafka.server.KafkaServer)",
    "Checking need to trigger auto leader balancing",
    "Kafka version: {release}, kafkalite {version}",
    "Kafka startTimeMs: {now_ms}",
    "[KafkaRaftServer nodeId={node}] Kafka Server started (kafka.server.KafkaRaftServer)",
)
"""Log lines of Kafka for which the Kafka modules of Testcontainers wait, in Kafka's order."""


def ready_lines(broker: Broker) -> str:
    """Return the lines for a broker that accepts clients."""
    assert broker.cluster is not None
    cluster = broker.cluster
    return ready_lines_of(min(cluster.nodes), cluster.config.release.name, broker.clock.now_ms())


def ready_lines_of(node_id: int, release: str, now_ms: int) -> str:
    """Return the lines for a node that accepts clients."""
    from kafkalite import __version__  # noqa: PLC0415 - used once

    values = {"node": node_id, "release": release, "version": __version__, "now_ms": now_ms}
    return "".join(f"{line.format_map(values)}\n" for line in _LINES)
