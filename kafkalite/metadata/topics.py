"""Topics and their partitions: creation, new partitions and deletion.

Decisions read the state and return records; replay methods take one record that is already in the
log. `leadership` decides about leaders.

`Topics.max_incarnation_epoch` is the counter of KIP-232: each created partition and each deleted
topic increases it by 1. The records contain its value. A record without one, of Kafka or of an
older release, increases the counter by 1 when it is replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.metadata.image import (
    NO_INCARNATION_EPOCH,
    NO_LEADER,
    PartitionImage,
    TopicImage,
)
from kafkalite.metadata.partition_change import IS_RECOVERING, NOT_TRUNCATED, UNCHANGED_LEADER
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.remove_topic import RemoveTopicRecord
from kafkalite.protocol._generated.records.topic import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.changes import Changes
    from kafkalite.protocol._generated.records.clear_elr import ClearElrRecord
    from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord


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
    # Few of the many partitions of a topic have different replicas.
    known: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
    records = []
    for index, replicas in enumerate(assignments, first):
        if replicas not in known:
            isr = [node_id for node_id in replicas if brokers.is_active(node_id)]
            known[replicas] = isr, brokers.directories(replicas) or []
        isr, directories = known[replicas]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr[:],
                leader=isr[0] if isr else NO_LEADER,
                leader_epoch=0,
                partition_epoch=0,
                directories=directories[:],
            )
        )
    return records


class Topics:
    """Every topic, by name and by id."""

    __slots__ = ("_changes", "_directories", "by_id", "by_name", "max_incarnation_epoch")

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self.by_id: dict[bytes, TopicState] = {}
        self.by_name: dict[str, TopicState] = {}
        self.max_incarnation_epoch = 0
        self._directories: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        """Directories of replicas: partitions with equal ones share the tuple."""

    def _shared_directories(self, directories: Iterable[bytes]) -> tuple[bytes, ...]:
        key = tuple(directories)
        return self._directories.setdefault(key, key)

    def set_incarnation_epochs(self, records: Iterable[object]) -> None:
        """Set the incarnation epochs in the records of a decision: consecutive numbers."""
        epoch = self.max_incarnation_epoch
        for record in records:
            if isinstance(record, PartitionRecord | RemoveTopicRecord):
                epoch += 1
                record.incarnation_epoch = epoch

    def _replay_incarnation_epoch(self, record: PartitionRecord | RemoveTopicRecord) -> int:
        """Advance the counter to a record, and return the record's value of it."""
        epoch = record.incarnation_epoch
        if epoch == NO_INCARNATION_EPOCH:
            epoch = self.max_incarnation_epoch + 1
        self.max_incarnation_epoch = max(self.max_incarnation_epoch, epoch)
        return epoch

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
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            is_recovering=record.leader_recovery_state == IS_RECOVERING,
            incarnation_epoch=self._replay_incarnation_epoch(record),
            directories=self._shared_directories(record.directories),
        )
        self._changes.changed_topic_ids.add(topic.topic_id)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        """Apply one PartitionChangeRecord; a leader in it increases the leader epoch.

        The last truncation remains in the image when later leaders do not truncate the log: after
        a crash or a failure of the disk, the log may still have to be truncated.
        """
        topic = self.by_id[record.topic_id]
        old = topic.partitions[record.partition_id]
        changed: dict[str, Any] = {
            field: tuple(node_ids)
            for field, node_ids in (
                ("replicas", record.replicas),
                ("isr", record.isr),
                ("elr", record.eligible_leader_replicas),
                ("last_known_elr", record.last_known_elr),
                ("adding", record.adding_replicas),
                ("removing", record.removing_replicas),
            )
            if node_ids is not None
        }
        if record.leader != UNCHANGED_LEADER:
            changed["leader"] = record.leader
            changed["leader_epoch"] = old.leader_epoch + 1
            if record.epoch_start_offset != NOT_TRUNCATED:
                changed["epoch_start_offset"] = record.epoch_start_offset
                changed["truncation_epoch"] = old.leader_epoch + 1
        if record.directories is not None:
            changed["directories"] = self._shared_directories(record.directories)
        if record.leader_recovery_state >= 0:
            changed["is_recovering"] = record.leader_recovery_state == IS_RECOVERING
        topic.partitions[record.partition_id] = old._replace(
            partition_epoch=old.partition_epoch + 1, **changed
        )
        self._changes.changed_topic_ids.add(topic.topic_id)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Apply one ClearElrRecord, which is about one topic or about all."""
        topics = [self.by_name[record.topic_name]] if record.topic_name else self.by_name.values()
        for topic in topics:
            for index, old in topic.partitions.items():
                if old.elr or old.last_known_elr:
                    topic.partitions[index] = old._replace(
                        partition_epoch=old.partition_epoch + 1, elr=(), last_known_elr=()
                    )
                    self._changes.changed_topic_ids.add(topic.topic_id)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Apply one RemoveTopicRecord; return the name of the removed topic."""
        self._replay_incarnation_epoch(record)
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
