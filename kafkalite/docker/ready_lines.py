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
    from kafkalite import __version__  # noqa: PLC0415 - used once

    assert broker.cluster is not None
    values = {
        "node": min(broker.cluster.nodes),
        "release": broker.cluster.config.release.name,
        "version": __version__,
        "now_ms": broker.clock.now_ms(),
    }
    return "".join(f"{line.format_map(values)}\n" for line in _LINES)
