"""Keys of brokers whose values can differ between nodes, and the reasons why others cannot."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import NODE_KEYS, is_of_sasl, is_of_tls, strip_listener_prefix
from kafkalite.config.unused_keys import reason_without_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTENERS: Final = ("listeners", "advertised.listeners")
"""Keys with the addresses of one node of the settings; added nodes have free ports."""

_OF_COORDINATORS: Final = """
group.* offset.metadata.max.bytes offsets.retention.*
share.coordinator.cold.partition.snapshot.interval.ms
share.coordinator.snapshot.update.records.per.snapshot transaction.abort.timed.out.*
transaction.max.timeout.ms transaction.remove.expired.* transaction.two.phase.commit.enable
transactional.id.expiration.ms
"""

SHARED: Final[Mapping[str, str]] = {
    "all nodes share its level": """
group.version share.version streams.version transaction.version eligible.leader.replicas.version
unstable.*
""",
    "all nodes share the records that share groups have acquired": """
group.share.*delivery.count.limit group.share.*record.lock* group.share.max.share.sessions
""",
    "the replicas of a partition share one log": """
compression.type log.* max.decompressed.message.bytes message.max.bytes min.insync.replicas
producer.id.expiration.* replica.fetch.backoff.ms unclean.leader.election.enable
""",
    "all nodes share the internal topic": """
offsets.topic.* share.coordinator.state.topic.* transaction.state.log.*
""",
    "it names the node or its role": """
broker.id node.id process.roles
""",
    "all nodes have the same names of listeners": """
controller.listener.names inter.broker.listener.name listener.security.protocol.map
security.inter.broker.protocol
""",
}
"""Reason why the values of keys cannot differ → the keys; `*` matches any characters."""


def is_of_coordinators(key: str) -> bool:
    """Return whether a key configures coordinators, each of which has the values of its node."""
    return shared_reason(key) is None and _matches(key, _OF_COORDINATORS)


def can_differ(name: str) -> bool:
    """Return whether the nodes of a cluster can have different values of a key."""
    if is_of_tls(name) or is_of_sasl(name):
        return True
    key = strip_listener_prefix(name)
    # Of the keys `log.*`, those of directories are in NODE_KEYS.
    if key in NODE_KEYS:
        return True
    if shared_reason(key) is not None:
        return False
    return key in LISTENERS or is_of_coordinators(key) or reason_without_effect(key) is not None


def shared_reason(key: str) -> str | None:
    """Return why the values of a key cannot differ, None if they can or for another reason."""
    return next((reason for reason, patterns in SHARED.items() if _matches(key, patterns)), None)


def refusal(name: str) -> str:
    """Return the error for a value of one node, for a key whose values cannot differ."""
    reason = shared_reason(strip_listener_prefix(name)) or "it configures what the nodes share"
    return f"{name} cannot differ between nodes, because {reason}: set it for all nodes"


def _matches(key: str, patterns: str) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns.split())
