"""Keys of brokers whose values can differ between nodes, and the reasons why others cannot."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import is_of_sasl, is_of_tls, strip_listener_prefix
from kafkalite.config.keys import broker_keys, own_broker_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTENERS: Final = ("listeners", "advertised.listeners")
"""Keys with the addresses of one node of the settings; added nodes have free ports."""

SHARED: Final[Mapping[str, str]] = {
    "all nodes share its level": """
group.version share.version streams.version transaction.version eligible.leader.replicas.version
unstable.*
""",
    "every node finds coordinators by the number of partitions": """
offsets.topic.num.partitions share.coordinator.state.topic.num.partitions
transaction.state.log.num.partitions
""",
    "it names the node or its role": """
broker.id node.id process.roles
""",
    "all nodes have the same names of listeners": """
controller.listener.names inter.broker.listener.name listener.security.protocol.map
security.inter.broker.protocol
""",
    "all nodes have the same controllers": """
controller.quorum.voters
""",
    "all nodes authorize by the same ACLs": """
authorizer.class.name
""",
    "all nodes check delegation tokens with the same key": """
delegation.token.secret.key
""",
    "the nodes are one process with one memory for requests": """
queued.max.request.bytes
""",
}
"""Reason why the values of keys cannot differ → the keys; `*` matches any characters."""


def can_differ(name: str) -> bool:
    """Return whether the nodes of a cluster can have different values of a key."""
    if is_of_tls(name) or is_of_sasl(name):
        return True
    key = strip_listener_prefix(name)
    return key in broker_keys() and key not in own_broker_keys() and shared_reason(key) is None


def shared_reason(key: str) -> str | None:
    """Return why the values of a key cannot differ, None if they can or for another reason."""
    return next((reason for reason, patterns in SHARED.items() if _matches(key, patterns)), None)


def refusal(name: str) -> str:
    """Return the error for a value of one node, for a key whose values cannot differ."""
    reason = shared_reason(strip_listener_prefix(name)) or "it configures what the nodes share"
    return f"{name} cannot differ between nodes, because {reason}: set it for all nodes"


def _matches(key: str, patterns: str) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns.split())
