"""Why a consumer group refused what it refused: a sentence for people, facts for programs.

The sentence is also what the client is told where its API has a field for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups import fencing
from kafkalite.groups.moments import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.fencing import Fenced
    from kafkalite.groups.group import CommitClaim, MemberId


def commit_refused(
    group: ConsumerGroup, claim: CommitClaim, fenced: Fenced, code: ErrorCode
) -> KafkaError:
    """Say why a commit was fenced: by which rule, who took the partition, and since when."""
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
    subject, ending = "commit", ""
    lost_at: int | None = None
    is_held = True
    partition = fenced.partition or _most_telling(group, claim)
    if partition is not None:
        topic, topic_id, index = partition
        subject = f"commit of {topic}-{index}"
        facts |= {"topic": topic, "topic_id": uuid_to_text(topic_id), "partition": index}
        held_since = group.current_of(claim.member_id).assignment_epoch(topic_id, index)
        is_held = held_since is not None
        facts["assignment_epoch"] = held_since
        lost = group.hand_overs().lost(topic_id, index, claim.member_id)
        if lost is not None and not is_held:
            lost_at = lost.epoch
            facts |= {"revoked_at_epoch": lost.epoch, "revoked_at_ms": lost.at_ms}
        ending = _ownership(group, claim.member_id, topic_id, index, facts)
    why = _reason(fenced, is_held=is_held, lost_at=lost_at)
    text = f"{subject} at epoch {fenced.epoch} refused: {why} (rule {fenced.rule}){ending}"
    return KafkaError(code, text, facts)


def _most_telling(group: ConsumerGroup, claim: CommitClaim) -> tuple[str, bytes, int] | None:
    """Return the partition that best shows what is wrong: one the member no longer has."""
    current = group.current_of(claim.member_id)
    wishes = [(wish.topic, wish.topic_id, wish.partition) for wish in claim.wishes]
    gone = [each for each in wishes if current.assignment_epoch(each[1], each[2]) is None]
    hand_overs = group.hand_overs()
    lost = [each for each in gone if hand_overs.lost(each[1], each[2], claim.member_id)]
    return next(iter([*lost, *gone, *wishes]), None)


def _reason(fenced: Fenced, *, is_held: bool, lost_at: int | None) -> str:
    member_epoch = fenced.standing.member_epoch
    if fenced.epoch > member_epoch:
        return f"the member is at epoch {member_epoch} only"
    if lost_at is not None:
        return f"partition revoked from this member at epoch {lost_at}"
    if fenced.rule == fencing.STRICT and fenced.partition is None:
        return f"the member is at epoch {member_epoch} now"
    if not is_held:
        return "partition is not this member's"
    if fenced.held_since is not None:
        return f"partition became this member's at epoch {fenced.held_since} only"
    return (
        f"the member gave partitions up at epoch {fenced.standing.revocation.epoch} and is at "
        f"epoch {member_epoch} now"
    )


def _ownership(
    group: ConsumerGroup,
    member_id: MemberId,
    topic_id: bytes,
    partition: int,
    facts: dict[str, object],
) -> str:
    owner = group.owner_of(topic_id, partition)
    facts["owner"] = owner
    if owner is None:
        return "; nobody owns it now"
    since_ms = group.hand_overs().since_ms(topic_id, partition, owner)
    facts["owner_since_ms"] = since_ms
    if owner == member_id:
        return ""
    since = "" if since_ms is None else f" since {time_of_day(since_ms)}"
    return f"; owner now {owner}{since}"


def unknown_member(group: ConsumerGroup, member_id: MemberId) -> KafkaError:
    """Say that a member is not one, and, while that is remembered, how it went."""
    went = group.hand_overs().departed(member_id)
    text = f"Member {member_id} is not a member of group {group.group_id}"
    facts: dict[str, object] = {"member_id": member_id, "group_epoch": group.epoch}
    if went is not None:
        text += f": {went.how} at {time_of_day(went.at_ms)}"
        facts |= {"went": went.how, "went_at_ms": went.at_ms}
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{text}.", facts)
