"""The cluster of several containers that a container belongs to, by its environment.

In an environment of KRaft, the list of voters names the controllers of a cluster. Several of them,
or one in another container, are a cluster of several containers, and the first one is the primary:
its container runs all nodes. The brokers of a ZooKeeper do not know each other's names, so they
need KAFKALITE_PRIMARY.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.docker.properties import VariableError
from kafkalite.docker.variables import REPLICATION_PROPERTIES
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.docker.properties import Properties

PRIMARY: Final = "KAFKALITE_PRIMARY"
"""The host of the container that runs all nodes, optionally with the port for other containers."""
SECRET: Final = "KAFKALITE_CLUSTER_SECRET"  # noqa: S105 - the name of a variable
"""A text that all containers of a cluster have, if one has it."""
BROKERS: Final = "KAFKALITE_BROKERS"
PRIMARY_PORT: Final = 39092
"""The port of the primary for the other containers of the cluster."""

MAX_EXPECTED_NODES: Final = 3
"""Nodes that a cluster of several containers is assumed to have, if its size is unknown."""

_VOTERS: Final = "controller.quorum.voters"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_ZOOKEEPERS: Final = ("KAFKA_ZOOKEEPER_CONNECT", "KAFKA_CFG_ZOOKEEPER_CONNECT")
_VOTER: Final = re.compile(r"(?:(\d+)@)?\[?([^@\s]*?)\]?:(\d+)")
_OWN_HOSTS: Final = frozenset(("", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"))  # noqa: S104
"""Hosts that no other container can mean by them."""
_LATER_BROKERS: Final = range(2, 10)
"""Ids of brokers of ZooKeeper that are rarely those of the only one."""


class Voter(NamedTuple):
    """A controller in the list of a container; the id is None if the list has only addresses."""

    node_id: int | None
    host: str


class Membership(NamedTuple):
    """The part of a container in a cluster of several containers."""

    host: str
    """The host of the primary."""
    port: int
    """The port of the primary for other containers."""
    is_primary: bool | None
    """Whether this container is the primary; None if the addresses of `host` decide."""
    named_by: str
    """The variable that names the primary."""
    node_id: int
    expected_nodes: int
    secret: str = ""


def roles_of(properties: Properties) -> set[str]:
    """Return the roles of the node, empty without KRaft."""
    text = properties.values.get("process.roles", "")
    return {role.strip() for role in text.split(",") if role.strip()}


def membership_of(
    properties: Properties, environment: Mapping[str, str], hostname: str
) -> Membership | None:
    """Return the membership of a container in a cluster; None if it is the whole cluster.

    Raises VariableError for an environment of several containers in which the primary is unknown.
    """
    has_size = bool(environment.get(BROKERS, "").strip())
    named = environment.get(PRIMARY, "").strip()
    if has_size and named:
        raise VariableError(
            f"{BROKERS} and {PRIMARY} are both set: {BROKERS} is for a container that is the whole "
            f"cluster, {PRIMARY} for one of several: remove one of them"
        )
    if has_size:
        return None
    if named:
        host, port = _primary_address(named)
        found = Membership(
            host, port, True if host == hostname else None, PRIMARY, -1, MAX_EXPECTED_NODES
        )
    else:
        from_voters = _of_voters(properties, hostname)
        if from_voters is None:
            _check_single(properties, environment)
            return None
        found = from_voters
    return found._replace(node_id=_node_id(properties), secret=environment.get(SECRET, "").strip())


def _of_voters(properties: Properties, hostname: str) -> Membership | None:
    """Return the membership by the list of voters; None if this container is the whole cluster."""
    roles = roles_of(properties)
    key = _VOTERS if properties.values.get(_VOTERS) else _BOOTSTRAP
    variable = properties.variable_of(key)
    texts = [text.strip() for text in properties.values.get(key, "").split(",") if text.strip()]
    if not texts or not roles or (len(texts) == 1 and "broker" in roles and "controller" in roles):
        return None
    voters = [_voter(text, variable) for text in texts]
    first = voters[0]
    if len(voters) == 1 and first.host in {*_OWN_HOSTS, hostname} and roles == {"broker"}:
        return None  # Its controller would be in this container, which has none.
    if first.host in _OWN_HOSTS:
        if len(voters) == 1:
            return None  # No broker in another container can connect to this controller.
        raise VariableError(
            f"{variable} has {len(voters)} nodes, but other containers cannot connect to the host "
            f"{first.host or 'without a name'} of the first one: write the host name of its "
            f"container, or if this container is the whole cluster, set {BROKERS}={len(voters)}"
        )
    return Membership(
        first.host,
        PRIMARY_PORT,
        _is_first(first, roles, properties, hostname),
        variable,
        -1,
        len(voters) if "broker" in roles and "controller" in roles else MAX_EXPECTED_NODES,
    )


def _is_first(first: Voter, roles: set[str], properties: Properties, hostname: str) -> bool | None:
    """Return whether the first voter is the node of this container; None if it is unknown."""
    if "controller" not in roles:
        return False
    if first.node_id is not None:
        return first.node_id == _node_id(properties)
    return True if first.host == hostname else None


def _voter(text: str, variable: str) -> Voter:
    match = _VOTER.fullmatch(text)
    if match is None:
        raise VariableError(
            f"{variable}: {text!r} is not the address of a node: write ID@HOST:PORT"
        )
    return Voter(None if match[1] is None else int(match[1]), match[2])


def _primary_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, f"{PRIMARY_PORT}"
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise VariableError(
            f"{PRIMARY}: {text!r} is not the host name of a container, such as kafka-1"
        )
    return host.strip("[]"), int(port)


def _node_id(properties: Properties) -> int:
    text = properties.values.get("node.id", "")
    if not text.isascii() or not text.isdigit():
        kraft = roles_of(properties)
        name = properties.variable_of("node.id" if kraft else "broker.id")
        raise VariableError(
            f"{name} is not set to a number: each container of a cluster needs an id of its own"
        )
    return int(text)


def _check_single(properties: Properties, environment: Mapping[str, str]) -> None:
    """Refuse an environment of one of several brokers that does not name the primary.

    Each of its containers would be a cluster of its own, and clients of one would not find the
    records of another.
    """
    advice = (
        f"if other containers are brokers of the same cluster, set {PRIMARY} in all of them to the "
        f"host name of one; if this container is the whole cluster, set {BROKERS}"
    )
    for key in REPLICATION_PROPERTIES:
        value = properties.values.get(key, "").strip()
        if value.isascii() and value.isdigit() and int(value) > 1:
            raise VariableError(
                f"{properties.variable_of(key)}={value} needs {value} nodes, but there is 1: set "
                f"it to 1; {advice}={value}"
            )
    has_zookeeper = any(environment.get(name, "").strip() for name in _ZOOKEEPERS)
    node_id = properties.values.get("node.id", "")
    is_later = node_id.isascii() and node_id.isdigit() and int(node_id) in _LATER_BROKERS
    if has_zookeeper and is_later and not roles_of(properties):
        raise VariableError(
            f"{properties.variable_of('node.id')}={node_id} is rarely the id of the only broker of "
            f"a ZooKeeper: {advice}=1"
        )
