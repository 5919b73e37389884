"""Who may commit and fetch offsets in a streams group, and what it is told that may not.

Partitions of a topic are read by the active tasks of the one subtopology that reads the topic, so
it is the task that has an epoch of assignment. Whether a commit at an epoch of the past is taken is
for `kafkalite.groups.fencing` to say, as in consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.fencing import Standing, fence_commit
from kafkalite.groups.moments import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.fencing import Fenced
    from kafkalite.groups.group import CommitClaim, MemberId, PartitionCheck
    from kafkalite.groups.streams.group import StreamsGroup


def validate_offset_commit(group: StreamsGroup, claim: CommitClaim) -> PartitionCheck | None:
    """Raise KafkaError unless the claim may commit; None: no need to check partitions."""
    epoch = claim.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty():
        return None
    if claim.is_transactional and claim.is_nobodys:
        return None
    check_member(group, claim.member_id)
    if not (claim.is_transactional or claim.knows_member_epochs):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "A member of a streams group must commit by OffsetCommit v9 or later.",
        )
    current = group.current_of(claim.member_id)
    if epoch == current.member_epoch:
        # The everyday commit: every rule takes it, so nothing is worked out for one to judge.
        return None

    def assignment_epoch(topic: str, topic_id: bytes, partition: int) -> int | None:
        del topic_id  # a topology names its topics, and so does Kafka here
        subtopology = group.reader_of(topic)
        return None if subtopology is None else current.assignment_epoch(subtopology, partition)

    return fence_commit(
        group.fencing_rule(),
        epoch,
        Standing(current.member_epoch, current.revocation, assignment_epoch),
        lambda fenced: _refused(group, claim, fenced),
    )


def validate_offset_fetch(
    group: StreamsGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Raise KafkaError unless this member at just this epoch, or an observer, may fetch."""
    if member_id is None and member_epoch < 0:
        return
    check_member(group, member_id or "")
    expected = group.current_of(member_id or "").member_epoch
    if member_epoch != expected:
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"fetch of offsets at epoch {member_epoch} refused: the member is at epoch {expected}",
            {
                "rule": "member-epoch",
                "member_id": member_id,
                "epoch": member_epoch,
                "member_epoch": expected,
            },
        )


def check_member(group: StreamsGroup, member_id: MemberId) -> None:
    """Raise KafkaError(UNKNOWN_MEMBER_ID) unless this is a member."""
    if member_id in group.members:
        return
    text = f"Member {member_id} is not a member of group {group.group_id}"
    facts: dict[str, object] = {"member_id": member_id, "group_epoch": group.epoch}
    if (went := group.hand_overs().departed(member_id)) is not None:
        text += f": {went.how} at {time_of_day(went.at_ms)}"
        facts |= {"went": went.how, "went_at_ms": went.at_ms}
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{text}.", facts)


def _refused(group: StreamsGroup, claim: CommitClaim, fenced: Fenced) -> KafkaError:
    """Say why a commit was fenced: by which rule, and who does the task now."""
    standing = fenced.standing
    facts: dict[str, object] = {
        "rule": fenced.rule,
        "member_id": claim.member_id,
        "epoch": fenced.epoch,
        "member_epoch": standing.member_epoch,
        "revocation_epoch": standing.revocation.epoch,
        "target_epoch": group.target_epoch,
        "group_epoch": group.epoch,
    }
    subject, why, ending = "commit", f"the member is at epoch {standing.member_epoch}", ""
    if fenced.partition is not None:
        topic, _, partition = fenced.partition
        subject = f"commit of {topic}-{partition}"
        facts |= {
            "topic": topic, "partition": partition, "assignment_epoch": fenced.held_since,
        }  # fmt: skip
        subtopology = group.reader_of(topic)
        if subtopology is None:
            why = "the topology does not read this topic"
        else:
            why, ending = _told_of_task(group, claim.member_id, subtopology, partition, facts)
    text = f"{subject} at epoch {fenced.epoch} refused: {why} (rule {fenced.rule}){ending}"
    return KafkaError(claim.stale_member_epoch, text, facts)


def _told_of_task(
    group: StreamsGroup,
    member_id: MemberId,
    subtopology: str,
    partition: int,
    facts: dict[str, object],
) -> tuple[str, str]:
    """Return why a task's offsets are not this member's to commit, and whose they are now."""
    task, key = f"task {subtopology}_{partition}", subtopology.encode()
    owner, hand_overs = group.active_member(subtopology, partition), group.hand_overs()
    facts |= {"subtopology": subtopology, "owner": owner}
    held_since = facts["assignment_epoch"]
    lost = hand_overs.lost(key, partition, member_id)
    if held_since is not None:
        why = f"{task} became this member's at epoch {held_since} only"
    elif lost is not None:
        why = f"{task} revoked from this member at epoch {lost.epoch}"
        facts |= {"revoked_at_epoch": lost.epoch, "revoked_at_ms": lost.at_ms}
    else:
        why = f"{task} is not this member's"
    if owner is None:
        return why, "; nobody does it now"
    since_ms = hand_overs.since_ms(key, partition, owner)
    facts["owner_since_ms"] = since_ms
    if owner == member_id:
        return why, ""
    since = "" if since_ms is None else f" since {time_of_day(since_ms)}"
    return why, f"; owner now {owner}{since}"
