"""OwnershipHistory: past owners of partitions and removed members, for explanations only.

The history is soft state of a shard. Its size is limited; the oldest entries are dropped first. No
decision depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.consumer.member import CurrentAssignment, OwnedPartitions
    from kafkalite.groups.group import GroupId, MemberId

K = TypeVar("K")
V = TypeVar("V")

MAX_ENTRIES: Final = 2_000
"""The maximum number of entries of each kind in a shard."""
MAX_ID_LENGTH: Final = 512
"""The maximum length of group id and member id together; longer ones are not recorded."""


class LostPartition(NamedTuple):
    """The loss of a partition by a member."""

    epoch: int
    """The member epoch after the loss."""
    at_ms: int


class PastDeparture(NamedTuple):
    """The reason and the time of a member's removal."""

    reason: str
    at_ms: int


class OwnershipHistory:
    """The history of the groups of one shard, by group id."""

    __slots__ = ("departures", "losses", "owners")

    def __init__(self) -> None:
        self.departures: dict[tuple[GroupId, MemberId], PastDeparture] = {}
        """(group, member) → the member's removal."""
        self.losses: dict[tuple[GroupId, bytes, int, MemberId], LostPartition] = {}
        """(group, topic id, partition, member) → the member's last loss of the partition."""
        self.owners: dict[tuple[GroupId, bytes, int], tuple[MemberId, int]] = {}
        """(group, topic id, partition) → its last owner, and when that member got it."""

    def of(self, group_id: GroupId) -> GroupOwnership:
        """Return the history of one group."""
        return GroupOwnership(self, group_id)


class GroupOwnership(NamedTuple):
    """The history of one group, for reading and writing."""

    history: OwnershipHistory
    group_id: GroupId

    def record_step(
        self, member_id: MemberId, before: CurrentAssignment, now: CurrentAssignment, now_ms: int
    ) -> None:
        """Record the partitions that a member lost and got in a reconciliation step."""
        if not self._fits_length_limit(member_id):
            return
        history, group_id = self
        lost = LostPartition(now.member_epoch, now_ms)
        for previous in (before.assigned, before.pending_revocation):
            for topic_id, partition in _lost_partitions(previous, now):
                _add(history.losses, (group_id, topic_id, partition, member_id), lost)
        since = (member_id, now_ms)
        for topic_id, owned in now.assigned.items():
            for partition in owned.keys() - before.assigned.get(topic_id, {}).keys():
                _add(history.owners, (group_id, topic_id, partition), since)

    def record_departure(self, member_id: MemberId, reason: str, now_ms: int) -> None:
        """Record the reason for a member's removal."""
        if self._fits_length_limit(member_id):
            _add(self.history.departures, (self.group_id, member_id), PastDeparture(reason, now_ms))

    def _fits_length_limit(self, member_id: MemberId) -> bool:
        return len(self.group_id) + len(member_id) <= MAX_ID_LENGTH

    def last_loss(
        self, topic_id: bytes, partition: int, member_id: MemberId
    ) -> LostPartition | None:
        """Return a member's last loss of a partition; None if unknown."""
        return self.history.losses.get((self.group_id, topic_id, partition, member_id))

    def owner_since_ms(self, topic_id: bytes, partition: int, owner: MemberId) -> int | None:
        """Return the time at which the owner got the partition; None if unknown."""
        owner_and_time = self.history.owners.get((self.group_id, topic_id, partition))
        return (
            owner_and_time[1] if owner_and_time is not None and owner_and_time[0] == owner else None
        )

    def departure(self, member_id: MemberId) -> PastDeparture | None:
        """Return the reason and the time of a member's removal; None if unknown."""
        return self.history.departures.get((self.group_id, member_id))


def _add(entries: dict[K, V], key: K, value: V) -> None:
    """Add an entry as the newest; drop the oldest if there are too many."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > MAX_ENTRIES:
        del entries[next(iter(entries))]


def _lost_partitions(owned: OwnedPartitions, now: CurrentAssignment) -> list[tuple[bytes, int]]:
    return [
        (topic_id, partition)
        for topic_id, partitions in owned.items()
        if partitions != now.assigned.get(topic_id)
        for partition in partitions
        if now.assignment_epoch(topic_id, partition) is None
    ]
