"""The quorum of controllers as Kafka describes it: one voter, and nodes that observe it.

The controller is the leader and the only voter: the node that acts as controller, or a separate one
whose id was chosen. The other nodes are observers:
they read the metadata log, as the brokers of a cluster with one controller do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cluster.node import NodeState
from kafkalite.metadata.features import KRAFT_VERSION
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.uuids import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Node
    from kafkalite.config.broker import BrokerConfig

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
"""Time after its last fetch in which Kafka's leader remembers an observer."""


class ReplicaKey(NamedTuple):
    """A replica of the metadata log; the id of its directory is zero if it is unknown."""

    node_id: int
    directory_id: bytes

    def __str__(self) -> str:
        """Return the text of Kafka's ReplicaKey."""
        return f"ReplicaKey(id={self.node_id}, directoryId={uuid_to_text(self.directory_id)})"


class Replica(NamedTuple):
    """The state of one replica, as the leader knows it."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class Quorum(NamedTuple):
    """The state of the quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voter: Replica
    observers: Sequence[Replica]


def controller_listener(config: BrokerConfig) -> str:
    """Return the name of the listener at which controllers reach each other."""
    return config.list("controller.listener.names")[0].upper()


def controller_id(cluster: Cluster) -> int:
    """Return the id of the controller: the chosen one, or that of the node that acts as it."""
    chosen = cluster.config.controller_id
    return controller_node(cluster).id if chosen is None else chosen


def controller_node(cluster: Cluster) -> Node:
    """Return the node that acts as controller: the active one with the lowest id.

    If none is active, it is a node that is registered, one that runs if possible, and otherwise the
    last controller: it stopped when there was no other. If the controller is no broker, it is the
    node whose listener the controller has.
    """
    registered = cluster.metadata.image.brokers
    controller = cluster.nodes.get(cluster.metadata.image.controller_id)
    if controller is not None:
        return controller
    nodes = cluster.nodes.values()

    def rank(node: Node) -> tuple[bool, bool, bool, int]:
        is_unregistered = node.id not in registered
        is_other = not is_unregistered and node.id != cluster.last_controller_id
        return is_unregistered, node.state is not NodeState.RUNNING, is_other, node.id

    return min(nodes, key=rank)


def voter_key(cluster: Cluster) -> ReplicaKey:
    """Return the only voter; the directories of fixed voters are unknown (kraft.version 0)."""
    node_id = controller_id(cluster)
    has_directory = cluster.metadata.image.features.get(KRAFT_VERSION, 0)
    return ReplicaKey(
        node_id, cluster.directory_ids.of_node(node_id) if has_directory else ZERO_UUID
    )


def describe_quorum(cluster: Cluster) -> Quorum:
    """Return the state of the quorum now.

    A node that is stopped or isolated, or whose metadata is frozen, is an observer that lags. As in
    Kafka, it is forgotten some minutes after its last fetch.
    """
    image, now_ms = cluster.metadata.image, cluster.clock.now_ms()
    key = voter_key(cluster)
    observers = [
        _observer(cluster, node, now_ms)
        for node in cluster.nodes.values()
        if node.id != key.node_id and _is_remembered(node, now_ms)
    ]
    return Quorum(
        leader_id=key.node_id,
        leader_epoch=cluster.metadata_leader_epoch,
        high_watermark=image.version,
        voter=Replica(key, image.version, now_ms, now_ms),
        observers=observers,
    )


def _observer(cluster: Cluster, node: Node, now_ms: int) -> Replica:
    key = ReplicaKey(node.id, cluster.directory_ids.of_node(node.id))
    fetched_ms = node.metadata_fetched_ms
    if fetched_ms is None:
        return Replica(key, cluster.metadata.image.version, now_ms, now_ms)
    return Replica(key, node.image.version, fetched_ms, fetched_ms)


def _is_remembered(node: Node, now_ms: int) -> bool:
    fetched_ms = node.metadata_fetched_ms
    return fetched_ms is None or now_ms - fetched_ms < OBSERVER_SESSION_TIMEOUT_MS
