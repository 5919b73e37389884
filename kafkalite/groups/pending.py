"""Pending offsets: what open transactions have committed, until they end.

Of all that is committed for a partition what was written last counts, whoever wrote it and in
whatever order transactions end. So a pending offset is outrun by a plain commit after it, and by
one of another transaction that was written after it and is committed before it. What is outrun
still keeps its partition unstable until its own transaction ends. Kafka compares the places in the
log; here they are replayed in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.groups.group import GroupId
    from kafkalite.groups.offset import OffsetAndMetadata


class Place(NamedTuple):
    """What an offset is committed for."""

    group_id: GroupId
    topic: str
    partition: int


class Pending(NamedTuple):
    """What a transaction has committed for a partition."""

    offset: OffsetAndMetadata
    is_outrun: bool = False
    """Whether something else counts by now, however the transaction ends."""


class PendingOffsets:
    """The pending offsets of every group in a shard."""

    __slots__ = ("_by_producer", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[GroupId, dict[str, dict[int, dict[int, Pending]]]] = {}
        """Group → topic → partition → producer id, in the order in which they wrote."""
        self._by_producer: dict[int, dict[Place, None]] = {}

    def of_group(self, group_id: GroupId) -> Mapping[str, Mapping[int, Mapping[int, Pending]]]:
        """Return what is pending for a group: topic → partition → producer id → offset."""
        return self.by_group.get(group_id, {})

    def all(self) -> Iterator[tuple[Place, Mapping[int, Pending]]]:
        """Yield every partition with something pending, and what that is."""
        for group_id, topics in self.by_group.items():
            for topic, partitions in topics.items():
                for partition, waiting in partitions.items():
                    yield Place(group_id, topic, partition), waiting

    # Changes, of which replayers make use

    def add(self, producer_id: int, place: Place, offset: OffsetAndMetadata) -> None:
        """Keep what a transaction has committed, instead of what it did before."""
        topics = self.by_group.setdefault(place.group_id, {})
        waiting = topics.setdefault(place.topic, {}).setdefault(place.partition, {})
        waiting.pop(producer_id, None)
        waiting[producer_id] = Pending(offset)
        self._by_producer.setdefault(producer_id, {})[place] = None

    def outrun(self, place: Place) -> None:
        """Take note of a plain commit: nothing that is pending now can count any more."""
        waiting = self._waiting(place)
        for producer_id, pending in waiting.items():
            waiting[producer_id] = Pending(pending.offset, is_outrun=True)

    def drop(self, place: Place) -> None:
        """Forget what is pending for a partition, since its offset is deleted."""
        for producer_id in self._waiting(place):
            places = self._by_producer[producer_id]
            del places[place]
            if not places:
                del self._by_producer[producer_id]
        self._forget(place)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[Place, OffsetAndMetadata]]:
        """Let a producer's transaction end; return the offsets that count from now on."""
        counting = []
        for place in self._by_producer.pop(producer_id, ()):
            waiting = self._waiting(place)
            if is_commit and not waiting[producer_id].is_outrun:
                counting.append((place, waiting[producer_id].offset))
                for earlier in waiting:
                    if earlier == producer_id:
                        break
                    waiting[earlier] = Pending(waiting[earlier].offset, is_outrun=True)
            del waiting[producer_id]
            if not waiting:
                self._forget(place)
        return counting

    def _waiting(self, place: Place) -> dict[int, Pending]:
        return self.by_group.get(place.group_id, {}).get(place.topic, {}).get(place.partition, {})

    def _forget(self, place: Place) -> None:
        topics = self.by_group.get(place.group_id, {})
        partitions = topics.get(place.topic, {})
        partitions.pop(place.partition, None)
        if not partitions:
            topics.pop(place.topic, None)
            if not topics:
                self.by_group.pop(place.group_id, None)
