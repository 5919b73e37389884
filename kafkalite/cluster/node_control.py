"""NodeControl: stops, starts and isolates nodes, freezes their metadata, and pauses replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cluster.node import NodeState
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Node
    from kafkalite.ports.clock import Timer


class NodeError(ValueError):
    """A node that cannot be brought into a state; the text is one sentence."""


class UnknownNodeError(NodeError):
    """A node id that the cluster does not have."""


class NodeControl:
    """Changes the states of the nodes of one cluster."""

    __slots__ = ("_cluster", "_session_timers")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._session_timers: dict[int, Timer] = {}
        """Isolated node → the timer of its session with the controller."""

    def node(self, node_id: int) -> Node:
        """Return a node; raises UnknownNodeError."""
        node = self._cluster.nodes.get(node_id)
        if node is None:
            ids = ", ".join(map(str, self._cluster.nodes))
            raise UnknownNodeError(f"there is no node {node_id}: the nodes are {ids}")
        return node

    def stop(self, node_id: int) -> None:
        """Stop a node as if its process was killed, and the controller noticed at once.

        The node leaves all in-sync replicas, and its partitions get other leaders. Raises NodeError
        for the last running node, and KafkaError if the disk refuses the change of the metadata;
        another call then tries it again.
        """
        node = self.node(node_id)
        if node.state is not NodeState.STOPPED:
            self._check_remaining(node, "stopped")
            self._leave(node, NodeState.STOPPED)
            self._cluster.partitions.drop_fetch_sessions(node_id)
        self._cluster.metadata.fence(node_id)

    def isolate(self, node_id: int) -> None:
        """Cut a node off from all other nodes; clients still reach it.

        Its metadata does not change any more. The controller fences it after
        `broker.session.timeout.ms`. Raises NodeError for a stopped node, and for the last running
        one.
        """
        node = self.node(node_id)
        if node.state is NodeState.ISOLATED:
            return
        if node.state is NodeState.STOPPED:
            raise NodeError(f"node {node_id} is stopped: start it before isolating it")
        self._check_remaining(node, "isolated")
        self._leave(node, NodeState.ISOLATED)
        self._start_session_timer(node_id)

    def start(self, node_id: int) -> None:
        """Let a stopped or isolated node take part again; its replicas follow at once.

        A node that was unregistered is registered again, also if it is running. Raises KafkaError
        if the disk refuses the change of the metadata; another call then tries it again.
        """
        node = self.node(node_id)
        if node.state in (NodeState.STOPPED, NodeState.ISOLATED):
            self._cancel_session(node_id)
            node.state = NodeState.RUNNING
            self._update_metadata(node)
            self._update_coordinators()
        self._cluster.metadata.register_broker(node_id, node.rack)
        self._cluster.metadata.unfence(node_id)
        self._cluster.replication.update_node(node_id)

    def freeze_metadata(self, node_id: int) -> None:
        """Let a node keep its present metadata until `thaw_metadata`."""
        self.node(node_id).is_metadata_frozen = True

    def thaw_metadata(self, node_id: int) -> None:
        """Let a node receive all changes of the metadata again, beginning with the missed ones."""
        node = self.node(node_id)
        node.is_metadata_frozen = False
        if node.is_reachable:
            self._update_metadata(node)
            self._cluster.replication.update_node(node_id)

    def pause_replication(self, node_id: int) -> None:
        """Let the replicas of a node stay where they are until `resume_replication`."""
        self.node(node_id).is_replication_paused = True
        self._cluster.replication.update_node(node_id)

    def resume_replication(self, node_id: int) -> None:
        """Let the replicas of a node follow their leaders again."""
        self.node(node_id).is_replication_paused = False
        self._cluster.replication.update_node(node_id)

    def close(self) -> None:
        """Stop all timers."""
        for node_id in tuple(self._session_timers):
            self._cancel_session(node_id)

    def _check_remaining(self, node: Node, state: str) -> None:
        others = [other for other in self._cluster.nodes.values() if other is not node]
        if not any(other.is_reachable for other in others):
            raise NodeError(f"node {node.id} cannot be {state}: no other node is running")

    def _leave(self, node: Node, state: NodeState) -> None:
        """Take a node out of the communication between nodes."""
        self._cancel_session(node.id)
        node.state = state
        node.fail_calls()
        self._update_coordinators()
        # Before the controller elects other leaders: now the end offsets of replicas are fixed.
        self._cluster.replication.update_node(node.id)

    def _start_session_timer(self, node_id: int) -> None:
        clock = self._cluster.clock
        timeout_ms = self._cluster.config.int("broker.session.timeout.ms")
        self._session_timers[node_id] = clock.call_at(
            clock.now_ms() + timeout_ms, lambda: self._expire_session(node_id)
        )

    def _expire_session(self, node_id: int) -> None:
        del self._session_timers[node_id]
        try:
            self._cluster.metadata.fence(node_id)
        except KafkaError:
            # The disk refused the change: try it again later.
            self._start_session_timer(node_id)

    def _cancel_session(self, node_id: int) -> None:
        timer = self._session_timers.pop(node_id, None)
        if timer is not None:
            timer.cancel()

    def _update_metadata(self, node: Node) -> None:
        if node.has_stale_metadata and not node.is_metadata_frozen:
            node.has_stale_metadata = False
            node.image = self._cluster.metadata.image

    def _update_coordinators(self) -> None:
        isolated = frozenset(
            node.id for node in self._cluster.nodes.values() if node.state is NodeState.ISOLATED
        )
        for coordinator in (
            self._cluster.groups, self._cluster.transactions, self._cluster.shares
        ):  # fmt: skip
            coordinator.set_unreachable_nodes(isolated)
