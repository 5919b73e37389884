"""PendingOffsets: offsets that open transactions have committed.

The offset written last for a partition is valid, no matter in which order transactions end. So a
pending offset is superseded by a later plain commit, and by a later commit of another transaction
that ends earlier. A superseded offset still makes its partition unstable until its transaction
ends. Kafka compares log offsets; here the order of replay is the order of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.groups.group import GroupId, OffsetAndMetadata


class OffsetKey(NamedTuple):
    """The group, topic and partition of an offset."""

    group_id: GroupId
    topic: str
    partition: int


class PendingOffset(NamedTuple):
    """An offset that an open transaction has committed for a partition."""

    offset: OffsetAndMetadata
    is_superseded: bool = False
    """Whether a later commit is valid instead, no matter how the transaction ends."""


class PendingOffsets:
    """The pending offsets of every group in a shard."""

    __slots__ = ("_by_producer", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[GroupId, dict[str, dict[int, dict[int, PendingOffset]]]] = {}
        """Group → topic → partition → producer id, in the order of the log."""
        self._by_producer: dict[int, dict[OffsetKey, None]] = {}

    def of_group(
        self, group_id: GroupId
    ) -> Mapping[str, Mapping[int, Mapping[int, PendingOffset]]]:
        """Return a group's pending offsets: topic → partition → producer id → offset."""
        return self.by_group.get(group_id, {})

    def all(self) -> Iterator[tuple[OffsetKey, Mapping[int, PendingOffset]]]:
        """Yield every partition with pending offsets, and the offsets by producer id."""
        for group_id, topics in self.by_group.items():
            for topic, partitions in topics.items():
                for partition, pending_by_producer in partitions.items():
                    yield OffsetKey(group_id, topic, partition), pending_by_producer

    # Changes, called by replayers

    def add(self, producer_id: int, key: OffsetKey, offset: OffsetAndMetadata) -> None:
        """Add an offset of a transaction; it replaces the transaction's earlier one."""
        topics = self.by_group.setdefault(key.group_id, {})
        pending_by_producer = topics.setdefault(key.topic, {}).setdefault(key.partition, {})
        pending_by_producer.pop(producer_id, None)
        pending_by_producer[producer_id] = PendingOffset(offset)
        self._by_producer.setdefault(producer_id, {})[key] = None

    def supersede(self, key: OffsetKey) -> None:
        """Mark all pending offsets of a partition as superseded, after a plain commit."""
        pending_by_producer = self._pending_by_producer(key)
        for producer_id, pending in pending_by_producer.items():
            pending_by_producer[producer_id] = PendingOffset(pending.offset, is_superseded=True)

    def drop(self, key: OffsetKey) -> None:
        """Remove all pending offsets of a partition, because its offset was deleted."""
        for producer_id in self._pending_by_producer(key):
            keys = self._by_producer[producer_id]
            del keys[key]
            if not keys:
                del self._by_producer[producer_id]
        self._remove(key)

    def end_transaction(
        self, producer_id: int, *, is_commit: bool
    ) -> list[tuple[OffsetKey, OffsetAndMetadata]]:
        """End a producer's transaction; return the offsets that become valid."""
        valid = []
        for key in self._by_producer.pop(producer_id, ()):
            pending_by_producer = self._pending_by_producer(key)
            if is_commit and not pending_by_producer[producer_id].is_superseded:
                valid.append((key, pending_by_producer[producer_id].offset))
                for earlier_producer_id in pending_by_producer:
                    if earlier_producer_id == producer_id:
                        break
                    pending_by_producer[earlier_producer_id] = PendingOffset(
                        pending_by_producer[earlier_producer_id].offset, is_superseded=True
                    )
            del pending_by_producer[producer_id]
            if not pending_by_producer:
                self._remove(key)
        return valid

    def _pending_by_producer(self, key: OffsetKey) -> dict[int, PendingOffset]:
        return self.by_group.get(key.group_id, {}).get(key.topic, {}).get(key.partition, {})

    def _remove(self, key: OffsetKey) -> None:
        topics = self.by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
            if not topics:
                self.by_group.pop(key.group_id, None)
