"""Topics and their partitions: creation, new partitions, deletion and leadership.

Decisions read the state and return records; replay methods take one record that is already in the
log. Each partition has one log on disk, independent of its replication factor. So every
replica on a registered node is in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol._generated.records.topic import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.changes import Changes
    from kafkalite.protocol._generated.records.remove_topic import RemoveTopicRecord

UNCHANGED_LEADER = -2
"""Value of a PartitionChangeRecord's leader that leaves it unchanged."""


class TopicState:
    """The state of one topic."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionImage] = {}

    def image(self) -> TopicImage:
        """Return an immutable image of the topic."""
        return TopicImage(
            name=self.name,
            topic_id=self.topic_id,
            partitions=tuple(self.partitions[index] for index in sorted(self.partitions)),
        )


def topic_records(
    name: str, topic_id: bytes, assignments: Sequence[tuple[int, ...]], brokers: Brokers
) -> list[TopicRecord | PartitionRecord]:
    """Return the records of a new topic whose partitions have these replicas, leaders first."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *partition_records(topic_id, 0, assignments, brokers),
    ]


def partition_records(
    topic_id: bytes, first: int, assignments: Sequence[tuple[int, ...]], brokers: Brokers
) -> list[PartitionRecord]:
    """Return the records of new partitions; `first` is the index of the first one."""
    records = []
    for index, replicas in enumerate(assignments, first):
        isr = [node_id for node_id in replicas if node_id in brokers.registered]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0] if isr else NO_LEADER,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return records


class Topics:
    """Every topic, by name and by id."""

    __slots__ = ("_brokers", "_changes", "by_id", "by_name")

    def __init__(self, brokers: Brokers, changes: Changes) -> None:
        self._brokers = brokers
        self._changes = changes
        self.by_id: dict[bytes, TopicState] = {}
        self.by_name: dict[str, TopicState] = {}

    def leadership_records(self) -> list[PartitionChangeRecord]:
        """Return records that repair partitions whose leader or replicas are not registered nodes.

        Afterwards the ISR of each partition consists of its registered replicas, and one of them
        is the leader.
        """
        return [
            change
            for topic in self.by_id.values()
            for partition in topic.partitions.values()
            if (change := self._leadership_change(topic.topic_id, partition)) is not None
        ]

    def _leadership_change(
        self, topic_id: bytes, partition: PartitionImage
    ) -> PartitionChangeRecord | None:
        registered = self._brokers.registered
        replicas = partition.replicas
        if registered and not any(node_id in registered for node_id in replicas):
            # All data is in this process, so new replicas can replace missing ones.
            ring = sorted(registered)
            count = min(len(replicas), len(ring))
            replicas = tuple(ring[(partition.index + step) % len(ring)] for step in range(count))
        isr = tuple(node_id for node_id in replicas if node_id in registered)
        leader = partition.leader if partition.leader in isr else next(iter(isr), NO_LEADER)
        if (replicas, isr, leader) == (partition.replicas, partition.isr, partition.leader):
            return None
        return PartitionChangeRecord(
            partition_id=partition.index,
            topic_id=topic_id,
            replicas=None if replicas == partition.replicas else list(replicas),
            isr=None if isr == partition.isr else list(isr),
            leader=UNCHANGED_LEADER if leader == partition.leader else leader,
        )

    def replay_topic(self, record: TopicRecord) -> None:
        """Apply one TopicRecord."""
        topic = TopicState(record.name, record.topic_id)
        self.by_id[topic.topic_id] = topic
        self.by_name[topic.name] = topic
        self._changes.created_topic_ids.add(topic.topic_id)

    def replay_partition(self, record: PartitionRecord) -> None:
        """Apply one PartitionRecord."""
        topic = self.by_id[record.topic_id]
        topic.partitions[record.partition_id] = PartitionImage(
            index=record.partition_id,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
        )
        self._changes.changed_topic_ids.add(topic.topic_id)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        """Apply one PartitionChangeRecord; a new leader increases the leader epoch."""
        topic = self.by_id[record.topic_id]
        old = topic.partitions[record.partition_id]
        is_leader_unchanged = record.leader == UNCHANGED_LEADER
        topic.partitions[record.partition_id] = PartitionImage(
            index=old.index,
            leader=old.leader if is_leader_unchanged else record.leader,
            leader_epoch=old.leader_epoch + (0 if is_leader_unchanged else 1),
            partition_epoch=old.partition_epoch + 1,
            replicas=old.replicas if record.replicas is None else tuple(record.replicas),
            isr=old.isr if record.isr is None else tuple(record.isr),
        )
        self._changes.changed_topic_ids.add(topic.topic_id)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Apply one RemoveTopicRecord; return the name of the removed topic."""
        topic = self.by_id.pop(record.topic_id)
        del self.by_name[topic.name]
        self._changes.changed_topic_ids.discard(topic.topic_id)
        if topic.topic_id in self._changes.created_topic_ids:
            self._changes.created_topic_ids.discard(topic.topic_id)
        else:
            self._changes.deleted_topics.append(topic.image())
        return topic.name

    def images(self, topic_ids: Iterable[bytes]) -> tuple[TopicImage, ...]:
        """Return the images of those topics that exist, ordered by name."""
        topics = (self.by_id[topic_id] for topic_id in topic_ids if topic_id in self.by_id)
        return tuple(topic.image() for topic in sorted(topics, key=lambda topic: topic.name))
