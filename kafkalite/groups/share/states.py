"""SharePartitions: which partitions have a share state, which are to get one or to lose it.

One value per group, as it stands in one record (ShareGroupStatePartitionMetadata). Every change
makes a new value. Only partitions that are initialized are assigned to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.metadata.image import MetadataImage


class NamedPartitions(NamedTuple):
    """Some partitions of one topic; the name is for readers of the log."""

    name: str
    partitions: frozenset[int]


Topics = dict[bytes, NamedPartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitions:
    """How far the share state of a group's topics has come, by topic id."""

    initializing: Mapping[bytes, NamedPartitions] = field(default_factory=dict)
    initialized: Mapping[bytes, NamedPartitions] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def topic_ids(self) -> frozenset[bytes]:
        """Return every topic spoken of."""
        return frozenset((*self.initializing, *self.initialized, *self.deleting))

    def size(self) -> int:
        """Return how many topics and partitions are named; a record grows with it."""
        named = (*self.initializing.values(), *self.initialized.values())
        return len(self.deleting) + sum(1 + len(each.partitions) for each in named)

    def begun(self, started: Mapping[bytes, NamedPartitions]) -> SharePartitions:
        """Return this with a state being made for these; what was to go is not, if it comes."""
        initializing = _joined(self.initializing, started)
        return replace(
            self,
            initializing=initializing,
            deleting=_without(self.deleting, initializing.keys()),
        )

    def done(self, made: Mapping[bytes, NamedPartitions]) -> SharePartitions:
        """Return this with the state of these made."""
        rest: Topics = {}
        for topic_id, named in self.initializing.items():
            left = named.partitions - (
                made[topic_id].partitions if topic_id in made else frozenset()
            )
            if left or topic_id not in made:
                rest[topic_id] = NamedPartitions(named.name, left)
        return replace(self, initializing=rest, initialized=_joined(self.initialized, made))

    def forgotten(self, topic_ids: Collection[bytes]) -> SharePartitions:
        """Return this without topics that are no more."""
        return SharePartitions(
            initializing=_without(self.initializing, topic_ids),
            initialized=_without(self.initialized, topic_ids),
            deleting=_without(self.deleting, topic_ids),
        )

    def giving_up(self, topics: Mapping[bytes, str]) -> SharePartitions:
        """Return this with the state of initialized topics about to be deleted."""
        return replace(
            self,
            initialized=_without(self.initialized, topics.keys()),
            deleting={**self.deleting, **topics},
        )

    def giving_up_all(
        self, image: MetadataImage
    ) -> tuple[SharePartitions, Mapping[bytes, list[int]]]:
        """Return this with all about to be deleted, and the partitions that may have a state."""
        doomed = _joined(self.initialized, self.initializing)
        for topic_id in self.deleting:
            # An earlier try may have ended anywhere, so that every partition is tried again.
            if (topic := image.topics_by_id.get(topic_id)) is not None:
                every = frozenset(range(len(topic.partitions)))
                doomed = _joined(doomed, {topic_id: NamedPartitions(topic.name, every)})
        partitions = {topic_id: sorted(named.partitions) for topic_id, named in doomed.items()}
        names = {topic_id: named.name for topic_id, named in doomed.items()}
        return SharePartitions(deleting=names), partitions

    def given_up(self, topic_ids: Collection[bytes]) -> SharePartitions:
        """Return this with the state of these topics deleted."""
        return replace(self, deleting=_without(self.deleting, topic_ids))

    def uninitialized(
        self, topic_ids: Collection[bytes], image: MetadataImage, being_made: Collection[bytes]
    ) -> Mapping[bytes, NamedPartitions]:
        """Return which partitions of these topics have no state yet.

        Those of topics `being_made` were asked for so short a time ago that they count as there.
        """
        missing: Topics = {}
        for topic_id in topic_ids:
            topic = image.topics_by_id[topic_id]
            there = self._partitions(self.initialized, topic_id)
            if topic_id in being_made:
                there |= self._partitions(self.initializing, topic_id)
            if len(there) < len(topic.partitions):
                every = frozenset(range(len(topic.partitions)))
                missing[topic_id] = NamedPartitions(topic.name, every - there)
        return missing

    def unfinished(self) -> Mapping[bytes, list[int]]:
        """Return the partitions whose state was asked for and is not known to be there."""
        return {
            topic_id: sorted(left)
            for topic_id, named in self.initializing.items()
            if (left := named.partitions - self._partitions(self.initialized, topic_id))
        }

    @staticmethod
    def _partitions(topics: Mapping[bytes, NamedPartitions], topic_id: bytes) -> frozenset[int]:
        return topics[topic_id].partitions if topic_id in topics else frozenset()


NO_PARTITIONS = SharePartitions()


def _joined(
    first: Mapping[bytes, NamedPartitions], second: Mapping[bytes, NamedPartitions]
) -> Topics:
    joined = dict(first)
    for topic_id, named in second.items():
        before = joined[topic_id].partitions if topic_id in joined else frozenset[int]()
        joined[topic_id] = NamedPartitions(named.name, before | named.partitions)
    return joined


T = TypeVar("T")


def _without(topics: Mapping[bytes, T], topic_ids: Collection[bytes]) -> dict[bytes, T]:
    return {topic_id: each for topic_id, each in topics.items() if topic_id not in topic_ids}
