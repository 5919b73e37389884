"""Who may commit and fetch offsets in a consumer group.

A commit at the member's own epoch is taken as it is. A commit at an earlier one was on its way
while the member moved on, and is taken for the partitions the member has held since that epoch
or before: nobody else can have consumed from those (KIP-1251, `assignment-epoch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
    from kafkalite.groups.group import CommitClaim, MemberId, PartitionCheck


def validate_offset_commit(group: ConsumerGroup, claim: CommitClaim) -> PartitionCheck | None:
    """Raise KafkaError unless the claim may commit; None: no need to check partitions."""
    epoch = claim.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty():
        return None
    if claim.is_transactional and _claims_nothing(claim):
        return None
    member = _member(group, claim.member_id)
    speaks_classic = member.classic is not None
    if not (claim.is_transactional or speaks_classic or claim.knows_member_epochs):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "A member that speaks the consumer protocol must commit by OffsetCommit v9 or later.",
        )
    current = group.current_of(claim.member_id)
    if epoch == current.member_epoch:
        return None
    if epoch > current.member_epoch:
        raise _stale(
            member, f"Epoch {epoch} is ahead of the member's epoch {current.member_epoch}."
        )
    return assignment_epoch_check(member, current, epoch)


def assignment_epoch_check(
    member: MemberMetadata, current: CurrentAssignment, epoch: int
) -> PartitionCheck:
    """Return the check of commits at an epoch the member has left: partition by partition."""

    def check(topic_id: bytes, partition: int) -> None:
        assigned_at = current.assignment_epoch(topic_id, partition)
        if assigned_at is None:
            raise _stale(member, f"Partition {partition} is not the member's.")
        if epoch < assigned_at:
            raise _stale(
                member, f"Partition {partition} became the member's at epoch {assigned_at}."
            )

    return check


def validate_offset_fetch(
    group: ConsumerGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Raise KafkaError unless this member at just this epoch, or an observer, may fetch."""
    if member_id is None and member_epoch < 0:
        return
    member = _member(group, member_id or "")
    expected = group.current_of(member_id or "").member_epoch
    if member_epoch != expected:
        raise _stale(member, f"Epoch {member_epoch} is not the member's epoch {expected}.")


def _claims_nothing(claim: CommitClaim) -> bool:
    return (
        claim.generation_id_or_member_epoch == -1
        and claim.member_id == ""
        and claim.group_instance_id is None
    )


def _member(group: ConsumerGroup, member_id: MemberId) -> MemberMetadata:
    try:
        return group.members[member_id]
    except KeyError:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        ) from None


def _stale(member: MemberMetadata, message: str) -> KafkaError:
    """Say that an epoch is not the right one, in the words of the member's own protocol."""
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return KafkaError(code, message)
