"""Replication: which replicas follow their leaders, and what changes when nodes fail.

Followers do not fetch: the log of a replica is a prefix of the partition's one log. A replica
follows while its node and the leader's node can reach each other and agree on the leader. Otherwise
its end offset is fixed in a `ReplicaView` until it follows again, and then it has the whole log at
once. So does a replica that a reassignment adds; before it follows, it is empty. A replica that is
not in sync and whose copy is throttled has the log once its quotas allow. In-sync replicas
shrink and expand as in Kafka, by requests to the controller, which completes a reassignment when
all its replicas are in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cluster.node import NodeState
from kafkalite.metadata.image import NO_LEADER
from kafkalite.metadata.partition_change import NOT_TRUNCATED
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.replicas import Leader, ReplicaView
from kafkalite.partitions.table import Truncation
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.cluster.replication_throttle import ReplicationThrottle
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock, Timer

_MAX_LAG = "replica.lag.time.max.ms"
_COPY_INTERVAL = "replica.fetch.backoff.ms"
"""The time after which a follower asks again for partitions that were throttled."""


class Replication:
    """The replicas of one cluster."""

    __slots__ = (
        "_clock", "_config", "_copy_timer", "_isr_timer", "_metadata", "_nodes", "_on_truncation",
        "_partitions", "_throttle",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        metadata: MetadataController,
        partitions: PartitionTable,
        nodes: Mapping[int, Node],
        on_truncation: Callable[[Truncation], None],
    ) -> None:
        """`on_truncation` is called for each former leader that loses records."""
        self._on_truncation = on_truncation
        self._clock = clock
        self._config = config
        self._metadata = metadata
        self._partitions = partitions
        self._nodes = nodes
        self._isr_timer: Timer | None = None
        self._copy_timer: Timer | None = None
        self._throttle: ReplicationThrottle | None = None
        """None until a replica that is not in sync could follow."""
        metadata.truncate_at(self._truncation_offset)

    def begin_change(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Let leaders that do not learn of a change lead on, before the partitions change."""
        del image
        if not any(node.has_stale_metadata for node in self._nodes.values()):
            return
        for topic in delta.changed:
            hosted = self._partitions.topic_by_id(topic.topic_id)
            for partition in () if hosted is None else hosted.partitions:
                leader = self._nodes.get(partition.leader)
                next_leader = topic.partitions[partition.index].leader
                if (
                    leader is not None
                    and leader.has_stale_metadata
                    and leader.state is not NodeState.STOPPED
                    and next_leader != leader.id
                    and leader.id not in partition.views
                ):
                    self._lead_on(partition, leader, next_leader)

    def _lead_on(self, partition: Partition, leader: Node, next_leader: int) -> None:
        """Let a node lead a partition that will have another leader, or none.

        With another leader, it accepts no records if they could be read, because there is only one
        log: if it is the only replica in sync, or if the next leader lacks committed records.
        """
        if next_leader == NO_LEADER:
            view = partition.views[leader.id] = ReplicaView(partition)
            view.led_isr = partition.isr
        elif (
            len(partition.isr) > 1 or not partition.has_enough_replicas
        ) and partition.high_watermark <= partition.end_offset_of(next_leader):
            view = partition.views[leader.id] = FormerLeader(partition, leader.image.brokers)
            view.caught_up_ms = self._clock.now_ms()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Let the replicas follow the new leaders; called after the partitions were changed."""
        del image
        topic_ids = [topic.topic_id for topic in (*delta.created, *delta.changed)]
        self._update(
            partition
            for topic_id in topic_ids
            if (topic := self._partitions.topic_by_id(topic_id)) is not None
            for partition in topic.partitions
        )
        self._partitions.notify_changes()

    def open(self) -> None:
        """Let the replicas of all nodes follow and join the ISR; called once all nodes run."""
        if len(self._nodes) > 1:
            self._update(self._all_partitions())

    def update_node(self, node_id: int) -> None:
        """Find out which replicas follow, after the state of a node has changed."""
        node = self._nodes.get(node_id)
        if self._throttle is not None and (node is None or node.state is NodeState.STOPPED):
            self._throttle.forget_node(node_id)
        self._update(
            partition
            for partition in self._all_partitions()
            if node_id in partition.replicas or node_id in partition.views
        )

    def close(self) -> None:
        """Stop the timers."""
        for timer in (self._isr_timer, self._copy_timer):
            if timer is not None:
                timer.cancel()
        self._isr_timer = self._copy_timer = None

    def _all_partitions(self) -> Iterator[Partition]:
        for topic in self._partitions.topics():
            yield from topic.partitions

    def _truncation_offset(self, topic_id: bytes, index: int, leader: int) -> int:
        """Return where the log ends if this node becomes the leader; NOT_TRUNCATED at its end."""
        topic = self._partitions.topic_by_id(topic_id)
        if topic is None or index >= len(topic.partitions):
            return NOT_TRUNCATED
        partition = topic.partitions[index]
        end_offset = max(partition.end_offset_of(leader), partition.log_start_offset)
        return end_offset if end_offset < partition.end_offset else NOT_TRUNCATED

    # --- following -----------------------------------------------------------------------------

    def _update(self, partitions: Iterable[Partition]) -> None:
        partitions = tuple(partitions)
        self._copy_to_throttled(partition for partition in partitions if partition.views)
        isr_changes = []
        updated = []
        must_check_later = False
        all_follow = all(
            node.is_reachable
            and not node.is_replication_paused
            and not node.has_stale_metadata
            and not node.cluster.cut_links
            for node in self._nodes.values()
        )
        for partition in partitions:
            if partition.views or not all_follow:
                node_ids = self._nodes_with_replicas(partition)
                changes = [self._update_replica(partition, node_id) for node_id in node_ids]
                updated.append((partition, any(changes)))
            elif len(partition.isr) == len(partition.replicas):
                continue
            isr = self._planned_isr(partition)
            if isr != partition.isr:
                isr_changes.append((partition.topic_id, partition.index, isr))
            must_check_later = must_check_later or self._has_lagging_isr(partition)
        # When all views are set: a fetch that ends now may read several of these partitions.
        for partition, ends_waits in updated:
            partition.update_high_watermark()
            if ends_waits:
                partition.notify_change()
        if isr_changes:
            # Later: the change of the metadata that led here is not yet known to all listeners.
            self._metadata.defer(lambda: self._alter_isr(isr_changes))
        if must_check_later:
            self._check_isrs_later()

    def _nodes_with_replicas(self, partition: Partition) -> set[int]:
        """Return the nodes with replicas, including those that do not know of their removal."""
        return {
            *partition.replicas,
            *partition.views,
            *(
                node.id
                for node in self._nodes.values()
                if node.has_stale_metadata
                and (image := node.image.partition(partition.topic_name, partition.index))
                is not None
                and node.id in image.replicas
            ),
        }

    def _update_replica(self, partition: Partition, node_id: int) -> bool:
        """Set the end of a node's replica and the leader that the node knows.

        Returns whether requests that wait at the node may end: the replica follows again, so
        consumers can read more, or a former leader knows the next one.
        """
        node = self._nodes.get(node_id)
        is_replica = node_id in partition.replicas
        known = None if node is None else self._stale_leader(partition, node, node_id)
        if known is not None and not is_replica and node_id not in known.replicas:
            known = None
        view = partition.views.get(node_id)
        leads_on = (
            view is not None
            and view.led_isr is not None
            and known is not None
            and partition.leader == NO_LEADER
        )
        lags = (
            node_id != partition.leader
            and not leads_on
            and (known is not None or (is_replica and self._must_wait(partition, node, node_id)))
        )
        ends_waits = view is not None and view.replica_end is not None and not lags
        if view is not None:
            view.known_leader = known
            view.led_isr = view.led_isr if leads_on else None
        if known is None and not lags:
            self._report_loss(partition.views.pop(node_id, None), partition)
            return ends_waits
        if view is None:
            view = partition.views[node_id] = ReplicaView(partition)
            view.known_leader = known
        if isinstance(view, FormerLeader) and not view.accepts_records:
            self._report_loss(view, partition)
            view = partition.views[node_id] = view.as_follower()
            ends_waits = True
        if not lags and not isinstance(view, FormerLeader):
            view.replica_end = None
        elif view.replica_end is None:
            view.replica_end = partition.end_offset
            view.replica_start = partition.log_start_offset
            view.caught_up_ms = self._clock.now_ms()
        else:
            # The log may have been truncated.
            view.replica_end = min(view.replica_end, partition.end_offset)
        return ends_waits

    def _report_loss(self, view: ReplicaView | None, partition: Partition) -> None:
        """Report the records of a former leader that learns of the next leader."""
        if isinstance(view, FormerLeader) and view.lost_offsets:
            self._on_truncation(
                Truncation(
                    topic=partition.topic_name,
                    partition=partition.index,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    end_offset=view.lost_offsets.start,
                    removed_offsets=len(view.lost_offsets),
                )
            )

    def _can_follow(self, partition: Partition, node: Node) -> bool:
        leader = self._nodes.get(partition.leader)
        return (
            node.is_reachable
            and not node.is_replication_paused
            and leader is not None
            and leader.is_reachable
            and node.exchanges_bytes_with(leader.id)
            and self._stale_leader(partition, leader, node.id) is None
        )

    @staticmethod
    def _stale_leader(partition: Partition, node: Node, replica_id: int) -> Leader | None:
        """Return the leader in a node's stale metadata.

        None if the node knows the leader, and whether the node `replica_id` has a replica.
        """
        if not node.has_stale_metadata:
            return None
        image = node.image.partition(partition.topic_name, partition.index)
        topic = node.image.topics.get(partition.topic_name)
        if image is None or topic is None or topic.topic_id != partition.topic_id:
            return Leader(NO_LEADER, -1, ())
        knows_leader = (image.leader, image.leader_epoch) == (
            partition.leader,
            partition.leader_epoch,
        )
        if knows_leader and (replica_id in image.replicas) == (replica_id in partition.replicas):
            return None
        return Leader(image.leader, image.leader_epoch, image.replicas)

    # --- throttled replicas --------------------------------------------------------------------

    def _is_throttled(self, partition: Partition, node_id: int, view: ReplicaView) -> bool:
        """Return whether a replica that could follow is not in sync and copies under a quota."""
        node = self._nodes.get(node_id)
        return (
            view.replica_end is not None
            and not isinstance(view, FormerLeader)
            and node is not None
            and node_id in partition.replicas
            and node_id not in partition.isr
            and self._can_follow(partition, node)
            and self._quotas().is_throttled(partition, node_id)
        )

    def _must_wait(self, partition: Partition, node: Node | None, node_id: int) -> bool:
        """Return whether a replica cannot follow, or copies under a quota."""
        if node is None or not self._can_follow(partition, node):
            return True
        view = partition.views.get(node_id)
        return (
            view is not None
            and view.end_offset < partition.end_offset
            and self._is_throttled(partition, node_id, view)
        )

    def _copy_to_throttled(self, partitions: Iterable[Partition]) -> None:
        """Advance the ends of throttled replicas; those that have the whole log then follow."""
        throttled = [
            (partition, node_id, view)
            for partition in partitions
            for node_id, view in partition.views.items()
            if self._is_throttled(partition, node_id, view)
        ]
        if not throttled or self._quotas().copy(throttled, self._clock.now_ms()):
            return
        if self._copy_timer is None:
            delay_ms = min(
                self._config.node_int(node_id, _COPY_INTERVAL) for _, node_id, _ in throttled
            )
            self._copy_timer = self._clock.call_at(
                self._clock.now_ms() + delay_ms, self._continue_copies
            )

    def _quotas(self) -> ReplicationThrottle:
        if self._throttle is None:
            # Most clusters have no replica that lags, and start faster without this module.
            from kafkalite.cluster.replication_throttle import ReplicationThrottle  # noqa: PLC0415

            self._throttle = ReplicationThrottle(self._config, lambda: self._metadata.image)
        return self._throttle

    def _continue_copies(self) -> None:
        self._copy_timer = None
        self._update(partition for partition in self._all_partitions() if partition.views)

    # --- in-sync replicas ----------------------------------------------------------------------

    def _planned_isr(self, partition: Partition) -> tuple[int, ...]:
        """Return the ISR that the leader requests now.

        Replicas that follow join it. Those that lag leave it after `replica.lag.time.max.ms`, but
        those of internal topics at once: answers of coordinators do not wait for replicas.
        """
        leader = self._nodes.get(partition.leader)
        if leader is None or not leader.is_reachable:
            return partition.isr
        active = self._metadata.image.brokers
        joining = [
            node_id
            for node_id in partition.replicas
            if node_id not in partition.isr
            and (broker := active.get(node_id)) is not None
            and broker.is_active
            and self._is_caught_up(partition, node_id)
        ]
        leaving = [
            node_id
            for node_id in partition.isr
            if node_id != partition.leader and self._must_leave(partition, node_id)
        ]
        if not joining and not leaving:
            return partition.isr
        return (*(node_id for node_id in partition.isr if node_id not in leaving), *joining)

    @staticmethod
    def _is_caught_up(partition: Partition, node_id: int) -> bool:
        view = partition.views.get(node_id)
        return view is None or view.replica_end is None

    def _must_leave(self, partition: Partition, node_id: int) -> bool:
        view = partition.views.get(node_id)
        if view is None or view.replica_end is None:
            return False
        if partition.is_internal:
            return True
        lag_ms = self._clock.now_ms() - view.caught_up_ms
        return view.replica_end < partition.end_offset and lag_ms > self._config.node_int(
            partition.leader, _MAX_LAG
        )

    def _alter_isr(self, changes: Sequence[tuple[bytes, int, tuple[int, ...]]]) -> None:
        try:
            self._metadata.alter_isr(changes)
        except KafkaError:
            # The disk refused the change: request it again later.
            self._check_isrs_later()

    @staticmethod
    def _has_lagging_isr(partition: Partition) -> bool:
        return any(
            view.replica_end is not None and node_id in partition.isr
            for node_id, view in partition.views.items()
        )

    def _check_isrs_later(self) -> None:
        """Check the ISRs periodically while a member lags, as each leader in Kafka does."""
        if self._isr_timer is not None:
            return
        max_lag_ms = min(self._config.node_int(node_id, _MAX_LAG) for node_id in self._nodes)
        interval_ms = max(1, max_lag_ms // 2)
        self._isr_timer = self._clock.call_at(self._clock.now_ms() + interval_ms, self._check_isrs)

    def _check_isrs(self) -> None:
        self._isr_timer = None
        self._update(
            partition
            for partition in self._all_partitions()
            if partition.views or len(partition.isr) < len(partition.replicas)
        )
