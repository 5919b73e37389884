"""Checks of offset commits and fetches in streams groups, with explained refusals.

A topic is read by the active tasks of one subtopology, so tasks have assignment epochs. The rules
for commits at earlier epochs are in `kafkalite.groups.modern.offset_commit_fencing`, as for
consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern.admission import check_fetch_epoch, find_member
from kafkalite.groups.modern.commit_refusals import (
    commit_refused_error,
    fencing_facts,
    owner_since_text,
)
from kafkalite.groups.modern.offset_commit_fencing import CommitterState, fence_commit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.group import CommitClaim, MemberId, PartitionCheck
    from kafkalite.groups.modern.offset_commit_fencing import FencedCommit
    from kafkalite.groups.streams.group import StreamsGroup


def validate_offset_commit(group: StreamsGroup, claim: CommitClaim) -> PartitionCheck | None:
    """Return the check for each partition, None if none is needed; raises KafkaError."""
    epoch = claim.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty():
        return None
    if claim.is_transactional and claim.names_no_member:
        return None
    find_member(group, claim.member_id)
    if not (claim.is_transactional or claim.supports_member_epochs):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "A member of a streams group must commit with OffsetCommit v9 or later.",
        )
    current = group.current_of(claim.member_id)
    if epoch == current.member_epoch:
        # The usual commit: every rule accepts it, so nothing else is computed.
        return None

    def assignment_epoch(topic: str, topic_id: bytes, partition: int) -> int | None:
        del topic_id  # topologies have topic names only, and Kafka uses them here as well
        subtopology = group.subtopology_reading(topic)
        return None if subtopology is None else current.assignment_epoch(subtopology, partition)

    return fence_commit(
        group.fencing_rule(),
        epoch,
        CommitterState(current.member_epoch, current.revocation, assignment_epoch),
        lambda fenced: _commit_refused(group, claim, fenced),
    )


def validate_offset_fetch(
    group: StreamsGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Raise KafkaError unless the epoch is the member's, or the request names no member."""
    if member_id is None and member_epoch < 0:
        return
    find_member(group, member_id or "")
    check_fetch_epoch(group, member_id or "", member_epoch)


def _commit_refused(group: StreamsGroup, claim: CommitClaim, fenced: FencedCommit) -> KafkaError:
    """Return the error for a fenced commit, with the rule and the task's current owner."""
    facts = fencing_facts(group, claim, fenced)
    description, reason, owner_text = (
        "commit",
        f"the member epoch is {fenced.committer.member_epoch}",
        "",
    )
    if fenced.partition is not None:
        topic, _, partition = fenced.partition
        description = f"commit of {topic}-{partition}"
        facts |= {
            "topic": topic, "partition": partition, "assignment_epoch": fenced.assignment_epoch,
        }  # fmt: skip
        subtopology = group.subtopology_reading(topic)
        if subtopology is None:
            reason = "the topology does not read this topic"
        else:
            reason, owner_text = _task_reason(group, claim.member_id, subtopology, partition, facts)
    return commit_refused_error(
        claim.stale_member_epoch_code,
        description,
        fenced,
        reason,
        owner_text=owner_text,
        facts=facts,
    )


def _task_reason(
    group: StreamsGroup,
    member_id: MemberId,
    subtopology: str,
    partition: int,
    facts: dict[str, object],
) -> tuple[str, str]:
    """Return the reason for refusing a task's offsets, and a text with the current owner."""
    task, key = f"task {subtopology}_{partition}", subtopology.encode()
    owner, ownership = group.active_member(subtopology, partition), group.ownership()
    facts |= {"subtopology": subtopology, "owner": owner}
    assignment_epoch = facts["assignment_epoch"]
    lost = ownership.last_loss(key, partition, member_id)
    if assignment_epoch is not None:
        reason = f"{task} was assigned to this member only at epoch {assignment_epoch}"
    elif lost is not None:
        reason = f"{task} revoked from this member at epoch {lost.epoch}"
        facts |= {"revoked_at_epoch": lost.epoch, "revoked_at_ms": lost.at_ms}
    else:
        reason = f"{task} is not assigned to this member"
    if owner is None:
        return reason, "; no current owner"
    return reason, owner_since_text(ownership, key, partition, owner, member_id, facts=facts)
