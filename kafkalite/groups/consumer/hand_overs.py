"""Hand-overs: who got which partition when, who gave it up, who went. For explanations alone.

Soft state, and bounded for each shard: it begins anew with the coordinator, and forgets the oldest
first. No decision looks at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from kafkalite.groups.consumer.member import CurrentAssignment, OwnedPartitions
    from kafkalite.groups.group import GroupId, MemberId

K = TypeVar("K")
V = TypeVar("V")

MAX_NOTES: Final = 2_000
"""Notes of each kind that a shard keeps, of all its groups together."""
LONGEST_NAME: Final = 512
"""Characters of a group's and a member's id together; of longer ones nothing is kept."""


class Lost(NamedTuple):
    """When a member gave a partition up."""

    epoch: int
    """The epoch the member came to by giving it up."""
    at_ms: int


class Went(NamedTuple):
    """How a member went, and when."""

    how: str
    at_ms: int


class HandOverBook:
    """What is remembered of the groups of one shard."""

    __slots__ = ("departed", "lost", "since")

    def __init__(self) -> None:
        self.departed: dict[tuple[GroupId, MemberId], Went] = {}
        self.lost: dict[tuple[GroupId, bytes, int, MemberId], Lost] = {}
        self.since: dict[tuple[GroupId, bytes, int], tuple[MemberId, int]] = {}

    def of(self, group_id: GroupId) -> HandOvers:
        """Return what is remembered of a group, for reading and for writing."""
        return HandOvers(self, group_id)


class HandOvers(NamedTuple):
    """What is remembered of one group."""

    book: HandOverBook
    group_id: GroupId

    def note(
        self, member_id: MemberId, before: CurrentAssignment, now: CurrentAssignment, now_ms: int
    ) -> None:
        """Remember what a step of a member's took from it and gave it."""
        if not self._is_kept(member_id):
            return
        book, group_id = self
        lost = Lost(now.member_epoch, now_ms)
        for held in (before.assigned, before.pending_revocation):
            for topic_id, partition in _gone(held, now):
                _put(book.lost, (group_id, topic_id, partition, member_id), lost)
        since = (member_id, now_ms)
        for topic_id, owned in now.assigned.items():
            for partition in owned.keys() - before.assigned.get(topic_id, {}).keys():
                _put(book.since, (group_id, topic_id, partition), since)

    def note_departure(self, member_id: MemberId, how: str, now_ms: int) -> None:
        """Remember how a member went."""
        if self._is_kept(member_id):
            _put(self.book.departed, (self.group_id, member_id), Went(how, now_ms))

    def _is_kept(self, member_id: MemberId) -> bool:
        return len(self.group_id) + len(member_id) <= LONGEST_NAME

    def lost(self, topic_id: bytes, partition: int, member_id: MemberId) -> Lost | None:
        """Return when a member last gave a partition up; None when that is not known."""
        return self.book.lost.get((self.group_id, topic_id, partition, member_id))

    def since_ms(self, topic_id: bytes, partition: int, owner: MemberId) -> int | None:
        """Return since when a partition is its owner's; None when that is not known."""
        known = self.book.since.get((self.group_id, topic_id, partition))
        return known[1] if known is not None and known[0] == owner else None

    def departed(self, member_id: MemberId) -> Went | None:
        """Return how a member went; None when that is not known."""
        return self.book.departed.get((self.group_id, member_id))


def _put(notes: dict[K, V], key: K, note: V) -> None:
    """Keep a note as the newest; the oldest goes when there are too many."""
    notes.pop(key, None)
    notes[key] = note
    if len(notes) > MAX_NOTES:
        del notes[next(iter(notes))]


def _gone(owned: OwnedPartitions, now: CurrentAssignment) -> list[tuple[bytes, int]]:
    return [
        (topic_id, partition)
        for topic_id, partitions in owned.items()
        if partitions != now.assigned.get(topic_id)
        for partition in partitions
        if now.assignment_epoch(topic_id, partition) is None
    ]
