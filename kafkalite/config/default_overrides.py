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

KAFKALITE_DEFAULTS: Final[Mapping[str, str]] = {
    # The usual cluster has one node, which cannot host three replicas of an internal topic. With
    # more nodes, see `default_overrides`.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
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
}
"""Key → the default of kafkalite, if it differs from Kafka's."""

_DEFAULTS_BY_NAME: Final[Mapping[str, Mapping[str, str]]] = dict(
    zip(DEFAULTS.choices, (KAFKALITE_DEFAULTS, {}), strict=True)
)
DEFAULTS_NAMES: Final = DEFAULTS.choices

_INTERNAL_REPLICATION: Final = tuple(
    key for key in KAFKALITE_DEFAULTS if key.endswith(".replication.factor")
)
MAX_INTERNAL_REPLICATION: Final = 3
"""Kafka's default of the replication factors of internal topics."""


def default_overrides(name: str, node_count: int = 1) -> Mapping[str, str]:
    """Return the defaults with this name that differ from Kafka's.

    Those of kafkalite give internal topics a replica on each of up to three nodes, so that their
    coordinators move when a node stops. Raises ConfigError for an unknown name.
    """
    if name not in _DEFAULTS_BY_NAME:
        raise ConfigError(
            DEFAULTS.name, f"{DEFAULTS.name} {name!r} is not one of {', '.join(_DEFAULTS_BY_NAME)}"
        )
    defaults = _DEFAULTS_BY_NAME[name]
    if node_count == 1 or not defaults:
        return defaults
    replication = str(min(node_count, MAX_INTERNAL_REPLICATION))
    return {**defaults, **dict.fromkeys(_INTERNAL_REPLICATION, replication)}
