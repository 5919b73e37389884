"""Defaults that differ from Kafka's, and the identity settings of a node.

DescribeConfigs reports these defaults as defaults. It reports the identity settings as static
broker configuration, because every Kafka broker has them in its properties file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTITY: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
}
"""Required settings of a combined broker and controller; the server adds the listeners."""

_REPLICATION_FACTORS: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_MIN_ISRS: Final = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
MAX_INTERNAL_REPLICATION: Final = 3
"""Kafka's default number of replicas of an internal topic."""


def _internal_topic_defaults(node_count: int) -> Mapping[str, str]:
    """Return the replication of internal topics in a cluster with fewer nodes than Kafka needs.

    One node can stop in a cluster of several nodes, and every group still has a coordinator.
    """
    if node_count >= MAX_INTERNAL_REPLICATION:
        return {}
    min_isr = max(1, node_count - 1)
    return {
        **dict.fromkeys(_REPLICATION_FACTORS, f"{node_count}"),
        **dict.fromkeys(_MIN_ISRS, f"{min_isr}"),
    }


_DEFAULT_REPLICATION: Final = "default.replication.factor"


def limit_replication(settings: Mapping[str, str], node_count: int) -> Mapping[str, str]:
    """Return settings in which the default number of replicas is at most that of the nodes."""
    replicas = settings.get(_DEFAULT_REPLICATION)
    if replicas is None or int(replicas) <= node_count:
        return settings
    return {**settings, _DEFAULT_REPLICATION: f"{node_count}"}


_TEST_DEFAULTS: Final[Mapping[str, str]] = {
    # For fast tests: no delay of the first rebalance, short intervals, short sessions.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    # Kerberos, Kafka's default, is not supported.
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
}
DEFAULTS_NAMES: Final = DEFAULTS.choices


def default_overrides(name: str, node_count: int = 1) -> Mapping[str, str]:
    """Return the defaults with this name that differ from Kafka's, in a cluster of this size.

    Those of kafkalite give internal topics a replica on each of up to three nodes, so that their
    coordinators move when a node stops. Raises ConfigError for an unknown name.
    """
    if name not in DEFAULTS_NAMES:
        raise ConfigError(
            DEFAULTS.name, f"{DEFAULTS.name} {name!r} is not one of {', '.join(DEFAULTS_NAMES)}"
        )
    if name != DEFAULTS.default:
        return {}
    return {**_internal_topic_defaults(node_count), **_TEST_DEFAULTS}


KAFKALITE_DEFAULTS: Final = default_overrides(DEFAULTS_NAMES[0])
"""Key → the default of kafkalite for a cluster of one node, if it differs from Kafka's."""
