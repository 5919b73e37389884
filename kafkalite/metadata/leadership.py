"""Leadership: leaders and in-sync replicas of all partitions, as nodes stop, start and lag.

Decisions read the state and return records. They follow Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER
from kafkalite.metadata.partition_change import (
    IS_RECOVERED,
    IS_RECOVERING,
    NOT_TRUNCATED,
    UNCHANGED_LEADER,
    Election,
    PartitionChange,
    Reassignment,
)
from kafkalite.ports.int_enums import IntEnum
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol._generated.records.unregister_broker import UnregisterBrokerRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.image import PartitionImage
    from kafkalite.metadata.partition_change import LeadershipRules
    from kafkalite.metadata.topics import Topics, TopicState
    from kafkalite.protocol._generated.records.broker_registration_change import (
        BrokerRegistrationChangeRecord,
    )

    LeadershipRecord = (
        PartitionChangeRecord | BrokerRegistrationChangeRecord | UnregisterBrokerRecord
    )


class ElectionType(IntEnum):
    """Type of a requested leader election, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def not_truncated(topic_id: bytes, index: int, leader: int) -> int:
    """Return NOT_TRUNCATED: a new leader has the whole log."""
    del topic_id, index, leader
    return NOT_TRUNCATED


class Leadership:
    """Plans elections, fencing of nodes, and changes of in-sync replicas.

    `truncation_offset` returns where a partition's log must be truncated if a node becomes its
    leader, NOT_TRUNCATED if the node has the whole log. The offset is stored with the new leader
    epoch, so that a restart completes a truncation that a crash prevented.
    """

    __slots__ = ("_brokers", "_rules", "_topics", "truncation_offset")

    def __init__(
        self, topics: Topics, brokers: Brokers, rules: Callable[[TopicState], LeadershipRules]
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._rules = rules
        self.truncation_offset: Callable[[bytes, int, int], int] = not_truncated

    # --- starts, stops and failures of nodes ---------------------------------------------------

    def start_records(self) -> list[PartitionChangeRecord]:
        """Return records that give all partitions registered replicas, an ISR and a leader.

        A start makes all replicas equal to the one log on disk, so all registered ones are in sync.
        """
        return [
            change
            for topic, partition in self._partitions()
            if (change := self._start_change(topic.topic_id, partition)) is not None
        ]

    def _start_change(
        self, topic_id: bytes, partition: PartitionImage
    ) -> PartitionChangeRecord | None:
        registered = self._brokers.registered
        target = Reassignment(partition.replicas, partition.adding, partition.removing)
        if registered and not any(node_id in registered for node_id in partition.replicas):
            # All data is in this process, so new replicas can replace missing ones.
            ring = sorted(registered)
            count = min(len(partition.replicas), len(ring))
            target = Reassignment(
                tuple(ring[(partition.index + step) % len(ring)] for step in range(count))
            )
        isr = tuple(node_id for node_id in target.replicas if node_id in registered)
        target, isr = target.completed(isr) or (target, isr)
        leader = partition.leader if partition.leader in isr else next(iter(isr), NO_LEADER)
        record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id)
        target.set_fields(record, partition)
        self._set_directories(record, partition)
        if isr != partition.isr:
            record.isr = list(isr)
        if leader != partition.leader or not set(partition.replicas) <= set(target.replicas):
            record.leader = leader
        if partition.elr:
            record.eligible_leader_replicas = []
        if partition.last_known_elr:
            record.last_known_elr = []
        if partition.is_recovering:
            record.leader_recovery_state = IS_RECOVERED
        if record == PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id):
            return None
        return record

    def fence(self, node_id: int) -> list[LeadershipRecord]:
        """Return records that take a node out of all ISRs and leaderships; none if it is fenced."""
        if not self._brokers.is_unfenced(node_id):
            return []
        records: list[LeadershipRecord] = []
        self._add_removals(records, node_id, lambda partition: partition.isr)
        records.append(self._brokers.fencing_record(node_id, is_fenced=True))
        return records

    def begin_shutdown(self, node_id: int) -> list[LeadershipRecord]:
        """Return records that let other nodes lead the partitions of a node that shuts down.

        As in Kafka, the node leaves all ISRs, and a partition without another replica in sync has
        no leader afterwards. There are no records for a node that leads nothing: it is fenced at
        once.
        """
        is_leader = any(partition.leader == node_id for _, partition in self._partitions())
        if not is_leader or not self._brokers.is_active(node_id):
            return []
        records: list[LeadershipRecord] = [self._brokers.shutdown_record(node_id)]
        self._add_removals(records, node_id, lambda partition: partition.isr)
        return records

    def unregister(self, node_id: int, *, is_removed: bool = False) -> list[LeadershipRecord]:
        """Return records that take a node out of all ISRs and leaderships, and out of the cluster.

        Its replicas remain in the assignments. As in Kafka, it remains in the sets of eligible
        leader replicas. With `is_removed`, later starts do not register it. Raises KafkaError
        BROKER_ID_NOT_REGISTERED.
        """
        broker = self._brokers.registered.get(node_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"Broker ID {node_id} is not currently registered",
            )
        records: list[LeadershipRecord] = []
        self._add_removals(records, node_id, lambda partition: partition.isr)
        self._add_removals(records, node_id, lambda partition: partition.elr)
        records.append(
            UnregisterBrokerRecord(
                broker_id=node_id, broker_epoch=broker.broker_epoch, is_removed=is_removed
            )
        )
        return records

    def _add_removals(
        self,
        records: list[LeadershipRecord],
        node_id: int,
        node_ids_of: Callable[[PartitionImage], tuple[int, ...]],
    ) -> None:
        """Add the records that remove a node; `node_ids_of` is the ISR or ELR that may have it."""
        for topic, partition in self._partitions():
            if node_id in node_ids_of(partition):
                change = PartitionChange(
                    partition,
                    self._rules(topic),
                    lambda other: other != node_id and self._brokers.is_active(other),
                    isr=tuple(other for other in partition.isr if other != node_id),
                )
                self._add(records, topic, change)

    def return_after_crash(self, node_id: int) -> list[PartitionChangeRecord]:
        """Return records that take a node out of all ELRs.

        A node that was not shut down may have lost records that it had not yet written to its disk.
        """
        records: list[PartitionChangeRecord] = []
        for topic, partition in self._partitions():
            if node_id in partition.elr:
                change = PartitionChange(
                    partition,
                    self._rules(topic),
                    lambda other: other != node_id and self._brokers.is_active(other),
                    crashed=node_id,
                )
                self._add(records, topic, change)
        return records

    def unfence(self, node_id: int) -> list[LeadershipRecord]:
        """Return records that let a node lead again, beginning with partitions without a leader."""
        if self._brokers.is_unfenced(node_id):
            return []
        records: list[LeadershipRecord] = [self._brokers.fencing_record(node_id, is_fenced=False)]
        for topic, partition in self._partitions():
            if partition.leader == NO_LEADER:
                change = PartitionChange(
                    partition,
                    self._rules(topic),
                    lambda other: other == node_id or self._brokers.is_active(other),
                )
                self._add(records, topic, change)
        return records

    # --- in-sync replicas ----------------------------------------------------------------------

    def alter_isr(
        self, topic_id: bytes, index: int, isr: tuple[int, ...]
    ) -> list[PartitionChangeRecord]:
        """Return the record that sets the ISR of a partition, as in AlterPartition.

        Fenced nodes are left out. The leader has recovered when the ISR has other members.
        """
        topic = self._topics.by_id[topic_id]
        partition = topic.partitions[index]
        active = tuple(node_id for node_id in isr if self._brokers.is_active(node_id))
        if not active:
            return []
        records: list[PartitionChangeRecord] = []
        self._add(
            records,
            topic,
            PartitionChange(partition, self._rules(topic), self._brokers.is_active, isr=active),
        )
        if partition.is_recovering and records:
            records[0].leader_recovery_state = IS_RECOVERED
        return records

    def reassign(
        self, topic: TopicState, partition: PartitionImage, reassignment: Reassignment
    ) -> list[PartitionChangeRecord]:
        """Return the record that begins a reassignment, or completes it if no replica lags.

        There is none if nothing changes.
        """
        records: list[PartitionChangeRecord] = []
        change = PartitionChange(
            partition,
            self._rules(topic),
            self._brokers.is_active,
            election=Election.ONLINE,
            reassignment=reassignment,
        )
        self._add(records, topic, change)
        return records

    def revert_reassignment(
        self, topic: TopicState, partition: PartitionImage
    ) -> list[PartitionChangeRecord]:
        """Return the record that cancels a reassignment: it restores the replicas from before it.

        If only added replicas are in sync, the first of the other replicas must become the leader
        uncleanly. Raises KafkaError INVALID_REPLICA_ASSIGNMENT if the topic does not allow that.
        """
        rules = self._rules(topic)
        replicas = tuple(
            node_id for node_id in partition.replicas if node_id not in partition.adding
        )
        isr = tuple(node_id for node_id in partition.isr if node_id not in partition.adding)
        if not isr and not rules.allows_unclean_election:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{partition.index} because "
                "it would require an unclean leader election.",
            )
        records: list[PartitionChangeRecord] = []
        change = PartitionChange(
            partition,
            rules,
            self._brokers.is_active,
            isr=isr or replicas[:1],
            reassignment=Reassignment(replicas),
        )
        self._add(records, topic, change)
        return records

    # --- elections on request ------------------------------------------------------------------

    def elect(self, topic_name: str, index: int, kind: ElectionType) -> PartitionChangeRecord:
        """Return the record that elects a leader; raises KafkaError if there is no candidate."""
        topic, partition = self._find(topic_name, index)
        is_elected = {
            ElectionType.PREFERRED: partition.leader == partition.replicas[0],
            ElectionType.UNCLEAN: partition.leader != NO_LEADER,
        }
        if is_elected[kind]:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        records: list[PartitionChangeRecord] = []
        change = PartitionChange(
            partition,
            self._rules(topic),
            self._brokers.is_active,
            election=Election[kind.name],
        )
        self._add(records, topic, change)
        if not records:
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                if kind is ElectionType.PREFERRED
                else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            )
        return records[0]

    def preferred_elections(self, limit: int) -> list[PartitionChangeRecord]:
        """Return records that elect preferred leaders where others lead; at most `limit` ones."""
        records: list[PartitionChangeRecord] = []
        for topic, partition in self._partitions():
            if len(records) >= limit:
                break
            if partition.leader != partition.replicas[0]:
                change = PartitionChange(
                    partition,
                    self._rules(topic),
                    self._brokers.is_active,
                    election=Election.PREFERRED,
                )
                self._add(records, topic, change)
        return records

    def unclean_elections(self, limit: int) -> list[PartitionChangeRecord]:
        """Return records that elect leaders of partitions without one; at most `limit` ones.

        Only topics with `unclean.leader.election.enable` are considered.
        """
        records: list[PartitionChangeRecord] = []
        for topic, partition in self._partitions():
            if len(records) >= limit:
                break
            if partition.leader == NO_LEADER and self._rules(topic).allows_unclean_election:
                with suppress(KafkaError):
                    records.append(self.elect(topic.name, partition.index, ElectionType.UNCLEAN))
        return records

    def move(
        self, topic_name: str, index: int, leader: int, *, is_unclean: bool
    ) -> PartitionChangeRecord:
        """Return the record that makes a replica the leader; Kafka has no request for that.

        Raises KafkaError INVALID_REPLICA_ASSIGNMENT for a node without a replica,
        BROKER_NOT_AVAILABLE for a fenced one, ELECTION_NOT_NEEDED for the leader, and
        ELIGIBLE_LEADERS_NOT_AVAILABLE for a replica that is not in sync, unless `is_unclean`.
        """
        topic, partition = self._find(topic_name, index)
        name = f"{topic_name}-{index}"
        if leader not in partition.replicas:
            replicas = ", ".join(map(str, partition.replicas))
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Node {leader} has no replica of {name}: its replicas are on {replicas}.",
            )
        if not self._brokers.is_active(leader):
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"Node {leader} is fenced, because it is stopped or isolated.",
            )
        if leader == partition.leader:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"Node {leader} leads {name} already.")
        record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=leader)
        if leader not in partition.isr:
            if not is_unclean:
                raise KafkaError(
                    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                    f"Node {leader} is not in sync with {name}: only an unclean election, which "
                    "loses records, can make it the leader.",
                )
            record.isr = [leader]
            record.leader_recovery_state = IS_RECOVERING
            if partition.elr:
                record.eligible_leader_replicas = []
            if partition.last_known_elr:
                record.last_known_elr = []
        record.epoch_start_offset = self.truncation_offset(topic.topic_id, index, leader)
        return record

    # --- helpers -------------------------------------------------------------------------------

    def _partitions(self) -> Iterator[tuple[TopicState, PartitionImage]]:
        for topic in self._topics.by_id.values():
            for partition in topic.partitions.values():
                yield topic, partition

    def _find(self, topic_name: str, index: int) -> tuple[TopicState, PartitionImage]:
        topic = self._topics.by_name.get(topic_name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorText.NO_SUCH_TOPIC.format(topic=topic_name),
            )
        partition = topic.partitions.get(index)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_name}-{index}"
            )
        return topic, partition

    def _add(
        self,
        records: list[PartitionChangeRecord] | list[LeadershipRecord],
        topic: TopicState,
        change: PartitionChange,
    ) -> None:
        record = change.record(topic.topic_id)
        if record is None:
            return
        if record.leader not in (UNCHANGED_LEADER, NO_LEADER):
            record.epoch_start_offset = self.truncation_offset(
                topic.topic_id, record.partition_id, record.leader
            )
        self._set_directories(record, topic.partitions[record.partition_id])
        records.append(record)

    def _set_directories(self, record: PartitionChangeRecord, partition: PartitionImage) -> None:
        """Set the directories of new replicas; there is one for each replica, as in Kafka."""
        if record.replicas is not None:
            record.directories = self._brokers.directories(record.replicas, partition)
