"""SharePartitions: the partitions of a share group by state: initializing, initialized, deleting.

It is the value of a group's ShareGroupStatePartitionMetadata record. It is immutable. Only
initialized partitions are assigned to members.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.metadata.image import MetadataImage


class NamedPartitions(NamedTuple):
    """Partitions of one topic, with the topic's name for readers of the log."""

    name: str
    partitions: frozenset[int]


PartitionsByTopicId = dict[bytes, NamedPartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitions:
    """The state of a group's share partitions, by topic id."""

    initializing: Mapping[bytes, NamedPartitions] = field(default_factory=dict)
    initialized: Mapping[bytes, NamedPartitions] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def topic_ids(self) -> frozenset[bytes]:
        """Return the ids of all topics."""
        return frozenset((*self.initializing, *self.initialized, *self.deleting))

    def size(self) -> int:
        """Return the number of topics and partitions, a measure of the record's size."""
        named = (*self.initializing.values(), *self.initialized.values())
        return len(self.deleting) + sum(1 + len(each.partitions) for each in named)

    def with_initializing(self, added: Mapping[bytes, NamedPartitions]) -> SharePartitions:
        """Return a value with these partitions initializing and their topics not deleting."""
        initializing = _merge(self.initializing, added)
        return replace(
            self,
            initializing=initializing,
            deleting=_without(self.deleting, initializing.keys()),
        )

    def with_initialized(self, now_initialized: Mapping[bytes, NamedPartitions]) -> SharePartitions:
        """Return a value with these partitions initialized."""
        remaining: PartitionsByTopicId = {}
        for topic_id, named in self.initializing.items():
            remaining_partitions = named.partitions - (
                now_initialized[topic_id].partitions if topic_id in now_initialized else frozenset()
            )
            if remaining_partitions or topic_id not in now_initialized:
                remaining[topic_id] = NamedPartitions(named.name, remaining_partitions)
        return replace(
            self, initializing=remaining, initialized=_merge(self.initialized, now_initialized)
        )

    def without_topics(self, topic_ids: Collection[bytes]) -> SharePartitions:
        """Return a value without these topics."""
        return SharePartitions(
            initializing=_without(self.initializing, topic_ids),
            initialized=_without(self.initialized, topic_ids),
            deleting=_without(self.deleting, topic_ids),
        )

    def with_deleting(self, topics: Mapping[bytes, str]) -> SharePartitions:
        """Return a value with these topics in state deleting instead of initialized."""
        return replace(
            self,
            initialized=_without(self.initialized, topics.keys()),
            deleting={**self.deleting, **topics},
        )

    def with_all_deleting(
        self, image: MetadataImage
    ) -> tuple[SharePartitions, Mapping[bytes, list[int]]]:
        """Return a value with all topics in state deleting, and the partitions to delete."""
        to_delete = _merge(self.initialized, self.initializing)
        for topic_id in self.deleting:
            # An earlier deletion may be incomplete, so all partitions are deleted again.
            if (topic := image.topics_by_id.get(topic_id)) is not None:
                all_partitions = frozenset(range(len(topic.partitions)))
                to_delete = _merge(
                    to_delete, {topic_id: NamedPartitions(topic.name, all_partitions)}
                )
        partitions = {topic_id: sorted(named.partitions) for topic_id, named in to_delete.items()}
        names = {topic_id: named.name for topic_id, named in to_delete.items()}
        return SharePartitions(deleting=names), partitions

    def with_deleted(self, topic_ids: Collection[bytes]) -> SharePartitions:
        """Return a value in which the state of these topics is deleted."""
        return replace(self, deleting=_without(self.deleting, topic_ids))

    def uninitialized(
        self,
        topic_ids: Collection[bytes],
        image: MetadataImage,
        being_initialized: Collection[bytes],
    ) -> Mapping[bytes, NamedPartitions]:
        """Return the partitions of these topics without share state.

        Initializing partitions of topics in `being_initialized` are not returned: their
        initialization was requested recently.
        """
        missing: PartitionsByTopicId = {}
        for topic_id in topic_ids:
            topic = image.topics_by_id[topic_id]
            existing = self._partitions(self.initialized, topic_id)
            if topic_id in being_initialized:
                existing |= self._partitions(self.initializing, topic_id)
            if len(existing) < len(topic.partitions):
                all_partitions = frozenset(range(len(topic.partitions)))
                missing[topic_id] = NamedPartitions(topic.name, all_partitions - existing)
        return missing

    def incomplete(self) -> Mapping[bytes, list[int]]:
        """Return the partitions whose initialization is not complete."""
        return {
            topic_id: sorted(remaining_partitions)
            for topic_id, named in self.initializing.items()
            if (
                remaining_partitions := named.partitions
                - self._partitions(self.initialized, topic_id)
            )
        }

    @staticmethod
    def _partitions(topics: Mapping[bytes, NamedPartitions], topic_id: bytes) -> frozenset[int]:
        return topics[topic_id].partitions if topic_id in topics else frozenset()


NO_PARTITIONS = SharePartitions()


def _merge(
    first: Mapping[bytes, NamedPartitions], second: Mapping[bytes, NamedPartitions]
) -> PartitionsByTopicId:
    merged = dict(first)
    for topic_id, named in second.items():
        before = merged[topic_id].partitions if topic_id in merged else frozenset[int]()
        merged[topic_id] = NamedPartitions(named.name, before | named.partitions)
    return merged


T = TypeVar("T")


def _without(topics: Mapping[bytes, T], topic_ids: Collection[bytes]) -> dict[bytes, T]:
    return {topic_id: each for topic_id, each in topics.items() if topic_id not in topic_ids}
