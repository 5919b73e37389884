"""NodeControl: adds, removes, stops, starts and isolates nodes, and lets their state lag."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.node import Node, NodeState
from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import MAX_NODE_ID
from kafkalite.ports.texts import count_text
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.pace import Pace
    from kafkalite.metadata.image import AddedNode
    from kafkalite.ports.clock import Timer


class NodeError(ValueError):
    """A node that cannot be brought into a state; the text is one sentence."""


class UnknownNodeError(NodeError):
    """A node id that the cluster does not have."""


_ADDRESSES: Final = ("listeners", "advertised.listeners")


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
            ids = ", ".join(map(str, sorted(self._cluster.nodes)))
            raise UnknownNodeError(f"there is no node {node_id!r}: the nodes are {ids}")
        return node

    def check_new(self, node_id: int | None) -> int:
        """Return the id of a node to be added: `node_id`, or the one after the largest id.

        If there is none after the largest, it is the smallest unused id.

        Raises NodeError for an id that the cluster has, and for an invalid one.
        """
        nodes, controller_id = self._cluster.nodes, self._cluster.config.controller_id
        if node_id is None:
            node_id = max(nodes) + 1
            if node_id == controller_id:
                node_id += 1
            if node_id > MAX_NODE_ID:
                node_id = next(each for each in count() if each not in (*nodes, controller_id))
        if not 0 <= node_id <= MAX_NODE_ID:
            raise NodeError(f"a node id is a number from 0 to {MAX_NODE_ID}, not {node_id}")
        if node_id in nodes:
            raise NodeError(f"node {node_id} exists already")
        if node_id == controller_id:
            raise NodeError(f"{node_id} is the id of the controller: use another id for the node")
        return node_id

    def add(self, node_id: int, added: AddedNode, prepare: Callable[[Node], None]) -> Node:
        """Add a running node without partitions; later starts begin with it, too.

        `prepare` is called before other nodes know the node. As in Kafka, the node is registered
        with a new broker epoch, fenced, and then unfenced. Raises NodeError as `check_new` does,
        ConfigError for invalid settings, and KafkaError if the disk refuses the change of the
        metadata; if the change is in the log all the same, the node was added.
        """
        cluster = self._cluster
        self.check_new(node_id)
        for key in _ADDRESSES:
            if key in added.settings:
                raise ConfigError(
                    key,
                    f"node {node_id}: {key} of an added node cannot be set: it has free ports",
                )
        cluster.config.configure_node(node_id, added.settings)
        rack = cluster.config.node_str_or_none(node_id, "broker.rack")
        node = Node(node_id, cluster, cluster.metadata.image, rack, added)
        cluster.nodes[node_id] = node
        try:
            prepare(node)
            cluster.metadata.register_broker(node_id, rack, added=added)
        finally:
            if node_id not in cluster.metadata.image.brokers:
                del cluster.nodes[node_id]
                cluster.config.forget_node(node_id)
        node.state = NodeState.RUNNING
        cluster.metadata.unfence(node_id)
        return node

    def check_removal(self, node_id: int) -> Node:
        """Return a node that can be removed.

        Raises UnknownNodeError, and NodeError for a node with replicas and for the last running
        one. Kafka's UnregisterBroker unregisters a node with replicas, too; they are then offline.
        """
        node = self.node(node_id)
        self._check_remaining(node, "removed")
        replicas = [
            f"{topic.name}-{partition.index}"
            for topic in self._cluster.metadata.image.topics.values()
            for partition in topic.partitions
            if node_id in partition.replicas
        ]
        if replicas:
            raise NodeError(
                f"node {node_id} cannot be removed: it has replicas of "
                f"{count_text(len(replicas), 'partition')}, such as {replicas[0]}: reassign them "
                f"to other nodes first"
            )
        return node

    def remove(self, node_id: int) -> None:
        """Remove a stopped node without replicas; later starts do not register it again.

        Raises the errors of `check_removal`, NodeError for a node that is not stopped, and
        KafkaError if the disk refuses the change of the metadata.
        """
        cluster = self._cluster
        node = self.check_removal(node_id)
        if node.state is not NodeState.STOPPED:
            raise NodeError(f"node {node_id} is {node.state.value}: stop it before removing it")
        cluster.metadata.remove_broker(node_id)
        del cluster.nodes[node_id]
        cluster.config.forget_node(node_id)
        cluster.replication.update_node(node_id)

    def shut_down(self, node_id: int) -> None:
        """Stop a node by a controlled shutdown, as Kafka's broker stops on SIGTERM.

        First other replicas in sync lead the partitions of the node, while the node still serves
        its clients. Then the controller fences the node. Raises NodeError for an isolated node,
        which does not reach the controller, and KafkaError if the disk refuses a change of the
        metadata; another call then continues.
        """
        node = self.node(node_id)
        metadata = self._cluster.metadata
        if node.state is NodeState.ISOLATED:
            raise NodeError(
                f"node {node_id} is isolated: a controlled shutdown needs the other nodes"
            )
        if node.state is not NodeState.STOPPED:
            metadata.begin_shutdown(node_id)
            metadata.fence(node_id)
            self._leave(node, NodeState.STOPPED)
            node.was_shut_down = True
            self._cluster.partitions.drop_fetch_sessions(node_id)
            self._cluster.log_directories.forget_node(node_id)
        else:
            # No effect unless the disk refused this when the node was stopped.
            metadata.fence(node_id)

    def stop(self, node_id: int) -> None:
        """Stop a node as if its process was killed, and the controller noticed at once.

        The node leaves all in-sync replicas, and its partitions get other leaders. Raises
        KafkaError if the disk refuses the change of the metadata; another call then tries it again.
        """
        node = self.node(node_id)
        if node.state is not NodeState.STOPPED:
            self._leave(node, NodeState.STOPPED)
            self._cluster.partitions.drop_fetch_sessions(node_id)
            self._cluster.log_directories.forget_node(node_id)
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

    def continue_isolation(self, node_ids: Sequence[int]) -> None:
        """Let nodes be isolated from the start on, as in a state of the cluster.

        The sessions of those that are not fenced begin again.
        """
        if not node_ids:
            return
        brokers = self._cluster.metadata.image.brokers
        for node_id in node_ids:
            self._cluster.nodes[node_id].state = NodeState.ISOLATED
            broker = brokers.get(node_id)
            if broker is not None and not broker.is_fenced:
                self._start_session_timer(node_id)
        self._update_coordinators()

    def start(self, node_id: int) -> None:
        """Let a stopped or isolated node take part again; its replicas follow at once.

        A stopped node is registered as another incarnation with a new broker epoch, as a new
        process of Kafka's broker is. So is a node that was unregistered, also if it is running.
        Raises KafkaError if the disk refuses the change of the metadata; another call then tries it
        again.
        """
        node = self.node(node_id)
        metadata = self._cluster.metadata
        was_stopped = node.state is NodeState.STOPPED
        broker = metadata.image.brokers.get(node_id)
        if was_stopped or broker is None or broker.is_shutting_down:
            metadata.register_broker(
                node_id,
                node.rack,
                added=node.added,
                has_crashed=was_stopped and not node.was_shut_down,
            )
        if node.state in (NodeState.STOPPED, NodeState.ISOLATED):
            self._cancel_session(node_id)
            node.was_shut_down = False
            node.state = NodeState.RUNNING
            self._update_metadata(node)
            self._update_coordinators()
        metadata.unfence(node_id)
        self._cluster.replication.update_node(node_id)
        node.end_isolation()

    def freeze_metadata(self, node_id: int) -> None:
        """Let a node keep its present metadata until `thaw_metadata`."""
        node = self.node(node_id)
        node.is_metadata_frozen = True
        self._end_fetches(node)

    def thaw_metadata(self, node_id: int) -> None:
        """Let a node receive all changes of the metadata again, beginning with the missed ones."""
        node = self.node(node_id)
        node.is_metadata_frozen = False
        if node.is_reachable:
            self._update_metadata(node)
            self._cluster.replication.update_node(node_id)

    @contextmanager
    def metadata_delayed(self, pace: Pace) -> Iterator[None]:
        """Let all nodes receive what changes in this block as late as a real Kafka.

        A node whose changes are delayed already receives these with them.
        """
        nodes = [node for node in self._cluster.nodes.values() if not node.is_metadata_delayed]
        for node in nodes:
            node.is_metadata_delayed = True
        try:
            yield
        finally:
            for node in nodes:
                pace.publish_later(partial(self._end_delay, node))

    def _end_delay(self, node: Node) -> None:
        node.is_metadata_delayed = False
        if node.is_reachable and node.has_stale_metadata:
            self._update_metadata(node)
            self._cluster.replication.update_node(node.id)

    def pause_replication(self, node_id: int) -> None:
        """Let the replicas of a node stay where they are until `resume_replication`."""
        self.node(node_id).is_replication_paused = True
        self._cluster.replication.update_node(node_id)

    def resume_replication(self, node_id: int) -> None:
        """Let the replicas of a node follow their leaders again."""
        self.node(node_id).is_replication_paused = False
        self._cluster.replication.update_node(node_id)

    def cut_links(self, cut: frozenset[tuple[int, int]]) -> None:
        """Cut the links from a node to another, (sender, receiver), and connect all others.

        Replicas follow a leader only if bytes arrive in both directions. The controller reaches
        all nodes nevertheless.
        """
        cluster = self._cluster
        changed = {node_id for pair in cluster.cut_links ^ cut for node_id in pair}
        cluster.cut_links = cut
        for node_id in sorted(changed & cluster.nodes.keys()):
            cluster.replication.update_node(node_id)

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
        self._end_fetches(node)
        node.fail_calls()
        self._update_coordinators()
        # Before the controller elects other leaders: now the end offsets of replicas are fixed.
        self._cluster.replication.update_node(node.id)

    def _start_session_timer(self, node_id: int) -> None:
        clock = self._cluster.clock
        timeout_ms = self._cluster.controller_config.int("broker.session.timeout.ms")
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

    def _end_fetches(self, node: Node) -> None:
        """Note when a node received the metadata for the last time."""
        if node.metadata_fetched_ms is None:
            node.metadata_fetched_ms = self._cluster.clock.now_ms()

    def _update_metadata(self, node: Node) -> None:
        if node.is_metadata_frozen or node.is_metadata_delayed:
            return
        node.metadata_fetched_ms = None
        if node.has_stale_metadata:
            node.has_stale_metadata = False
            node.image = self._cluster.metadata.image

    def _update_coordinators(self) -> None:
        isolated = frozenset(
            node.id for node in self._cluster.nodes.values() if node.state is NodeState.ISOLATED
        )
        self._cluster.coordinators.set_unreachable_nodes(isolated)
