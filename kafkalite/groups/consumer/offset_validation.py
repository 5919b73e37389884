"""Checks of offset commits and fetches in consumer groups, with explained refusals.

The rules for commits at earlier epochs are in `kafkalite.groups.modern.offset_commit_fencing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern import offset_commit_fencing as fencing
from kafkalite.groups.modern.admission import check_fetch_epoch, find_member
from kafkalite.groups.modern.commit_refusals import (
    commit_refused_error,
    fencing_facts,
    owner_since_text,
)
from kafkalite.groups.modern.offset_commit_fencing import CommitterState, fence_commit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import CommitClaim, MemberId, PartitionCheck
    from kafkalite.groups.modern.offset_commit_fencing import FencedCommit


def validate_offset_commit(group: ConsumerGroup, claim: CommitClaim) -> PartitionCheck | None:
    """Return the check for each partition, None if none is needed; raises KafkaError."""
    epoch = claim.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty():
        return None
    if claim.is_transactional and claim.names_no_member:
        return None
    member = find_member(group, claim.member_id)
    uses_classic_protocol = member.classic is not None
    if not (claim.is_transactional or uses_classic_protocol or claim.supports_member_epochs):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "A member that uses the consumer protocol must commit with OffsetCommit v9 or later.",
        )
    current = group.current_of(claim.member_id)
    if epoch == current.member_epoch:
        # The usual commit: every rule accepts it, so nothing else is computed.
        return None
    committer = CommitterState(
        current.member_epoch,
        current.revocation,
        lambda _, topic_id, partition: current.assignment_epoch(topic_id, partition),
    )
    code = ErrorCode.ILLEGAL_GENERATION if uses_classic_protocol else claim.stale_member_epoch_code
    return fence_commit(
        group.fencing_rule(),
        epoch,
        committer,
        lambda fenced: _commit_refused(group, claim, fenced, code),
    )


def validate_offset_fetch(
    group: ConsumerGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Raise KafkaError unless the epoch is the member's, or the request names no member."""
    if member_id is None and member_epoch < 0:
        return
    member = find_member(group, member_id or "")
    uses_classic_protocol = member.classic is not None
    check_fetch_epoch(
        group,
        member_id or "",
        member_epoch,
        ErrorCode.ILLEGAL_GENERATION if uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH,
    )


def _commit_refused(
    group: ConsumerGroup, claim: CommitClaim, fenced: FencedCommit, code: ErrorCode
) -> KafkaError:
    """Return the error for a fenced commit, with the rule and the current owner."""
    facts = fencing_facts(group, claim, fenced)
    description, owner_text = "commit", ""
    lost_at_epoch: int | None = None
    is_held = True
    partition = fenced.partition or _partition_to_explain(group, claim)
    if partition is not None:
        topic, topic_id, index = partition
        description = f"commit of {topic}-{index}"
        facts |= {"topic": topic, "topic_id": uuid_to_text(topic_id), "partition": index}
        assignment_epoch = group.current_of(claim.member_id).assignment_epoch(topic_id, index)
        is_held = assignment_epoch is not None
        facts["assignment_epoch"] = assignment_epoch
        lost = group.ownership().last_loss(topic_id, index, claim.member_id)
        if lost is not None and not is_held:
            lost_at_epoch = lost.epoch
            facts |= {"revoked_at_epoch": lost.epoch, "revoked_at_ms": lost.at_ms}
        owner_text = _owner_text(group, claim.member_id, topic_id, index, facts)
    reason = _reason(fenced, is_held=is_held, lost_at_epoch=lost_at_epoch)
    return commit_refused_error(
        code, description, fenced, reason, owner_text=owner_text, facts=facts
    )


def _partition_to_explain(
    group: ConsumerGroup, claim: CommitClaim
) -> tuple[str, bytes, int] | None:
    """Return the partition for the explanation, preferably one that the member has lost."""
    current = group.current_of(claim.member_id)
    requested = [(offset.topic, offset.topic_id, offset.partition) for offset in claim.offsets]
    not_owned = [each for each in requested if current.assignment_epoch(each[1], each[2]) is None]
    ownership = group.ownership()
    lost = [each for each in not_owned if ownership.last_loss(each[1], each[2], claim.member_id)]
    return next(iter([*lost, *not_owned, *requested]), None)


def _reason(fenced: FencedCommit, *, is_held: bool, lost_at_epoch: int | None) -> str:
    member_epoch = fenced.committer.member_epoch
    if fenced.epoch > member_epoch:
        return f"the member epoch is only {member_epoch}"
    if lost_at_epoch is not None:
        return f"partition revoked from this member at epoch {lost_at_epoch}"
    if fenced.rule == fencing.STRICT and fenced.partition is None:
        return f"the member epoch is now {member_epoch}"
    if not is_held:
        return "partition is not assigned to this member"
    if fenced.assignment_epoch is not None:
        return f"partition was assigned to this member only at epoch {fenced.assignment_epoch}"
    return (
        f"the member revoked partitions at epoch {fenced.committer.revocation.epoch} and its epoch "
        f"is now {member_epoch}"
    )


def _owner_text(
    group: ConsumerGroup,
    member_id: MemberId,
    topic_id: bytes,
    partition: int,
    facts: dict[str, object],
) -> str:
    owner = group.owner_of(topic_id, partition)
    facts["owner"] = owner
    if owner is None:
        return "; no current owner"
    return owner_since_text(group.ownership(), topic_id, partition, owner, member_id, facts=facts)
