"""RecordTypes: constructors of the records that all types of modern groups have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kafkalite.groups.group import GroupId, MemberId, Record


class RecordTypes(NamedTuple):
    """The generated classes of these records for one group type."""

    group_key: type
    member_key: type
    target_epoch_key: type
    target_epoch_value: Callable[..., object]
    target_member_key: type
    current_key: type

    def group_tombstone(self, group_id: GroupId) -> Record:
        """Return the tombstone of the group."""
        return CoordinatorRecord(self.group_key(group_id=group_id), None)

    def target_epoch_record(self, group_id: GroupId, epoch: int, timestamp_ms: int) -> Record:
        """Return the record of the target epoch and its time."""
        return CoordinatorRecord(
            self.target_epoch_key(group_id=group_id),
            self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
        )

    def target_epoch_tombstone(self, group_id: GroupId) -> Record:
        """Return the tombstone of the group's target assignment."""
        return CoordinatorRecord(self.target_epoch_key(group_id=group_id), None)

    def member_metadata_tombstone(self, group_id: GroupId, member_id: MemberId) -> Record:
        """Return the tombstone of a member's metadata."""
        return CoordinatorRecord(self.member_key(group_id=group_id, member_id=member_id), None)

    def target_assignment_tombstone(self, group_id: GroupId, member_id: MemberId) -> Record:
        """Return the tombstone of a member's target assignment."""
        key = self.target_member_key(group_id=group_id, member_id=member_id)
        return CoordinatorRecord(key, None)

    def current_assignment_tombstone(self, group_id: GroupId, member_id: MemberId) -> Record:
        """Return the tombstone of a member's current assignment."""
        return CoordinatorRecord(self.current_key(group_id=group_id, member_id=member_id), None)

    def member_tombstones(self, group_id: GroupId, member_id: MemberId) -> list[Record]:
        """Return the tombstones of a member; the state is valid after each of them."""
        return [
            self.current_assignment_tombstone(group_id, member_id),
            self.target_assignment_tombstone(group_id, member_id),
            self.member_metadata_tombstone(group_id, member_id),
        ]

    def group_tombstones(
        self, group_id: GroupId, member_ids: Collection[MemberId], others: Iterable[Record]
    ) -> list[Record]:
        """Return the tombstones of a group in Kafka's order; `others` are specific to its type."""
        return [
            *(self.current_assignment_tombstone(group_id, m) for m in member_ids),
            *(self.target_assignment_tombstone(group_id, m) for m in member_ids),
            self.target_epoch_tombstone(group_id),
            *(self.member_metadata_tombstone(group_id, m) for m in member_ids),
            *others,
        ]
