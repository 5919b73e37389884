"""Who may commit and fetch offsets in a consumer group, and what it is told that may not.

Whether a commit at an epoch of the past is taken is for `kafkalite.groups.fencing` to say, by the
rule the broker is set to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.explain import commit_refused, unknown_member
from kafkalite.groups.fencing import Standing, fence_commit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.group import CommitClaim, MemberId, PartitionCheck


def validate_offset_commit(group: ConsumerGroup, claim: CommitClaim) -> PartitionCheck | None:
    """Raise KafkaError unless the claim may commit; None: no need to check partitions."""
    epoch = claim.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty():
        return None
    if claim.is_transactional and claim.is_nobodys:
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
        # The everyday commit: every rule takes it, so nothing is worked out for one to judge.
        return None
    standing = Standing(
        current.member_epoch,
        current.revocation,
        lambda _, topic_id, partition: current.assignment_epoch(topic_id, partition),
    )
    code = ErrorCode.ILLEGAL_GENERATION if speaks_classic else claim.stale_member_epoch
    return fence_commit(
        group.fencing_rule(),
        epoch,
        standing,
        lambda fenced: commit_refused(group, claim, fenced, code),
    )


def validate_offset_fetch(
    group: ConsumerGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Raise KafkaError unless this member at just this epoch, or an observer, may fetch.

    No rule of fencing makes this laxer: Kafka left it as strict as it was.
    """
    if member_id is None and member_epoch < 0:
        return
    member = _member(group, member_id or "")
    expected = group.current_of(member_id or "").member_epoch
    if member_epoch != expected:
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH
            if member.classic is None
            else ErrorCode.ILLEGAL_GENERATION,
            f"fetch of offsets at epoch {member_epoch} refused: the member is at epoch {expected}",
            {
                "rule": "member-epoch",
                "member_id": member_id,
                "epoch": member_epoch,
                "member_epoch": expected,
            },
        )


def _member(group: ConsumerGroup, member_id: MemberId) -> MemberMetadata:
    try:
        return group.members[member_id]
    except KeyError:
        raise unknown_member(group, member_id) from None
