"""Errors for refused offset commits, with the fencing rule and the current owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.timestamps import time_of_day
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.group import CommitClaim, MemberId
    from kafkalite.groups.modern.group import ModernGroup
    from kafkalite.groups.modern.offset_commit_fencing import FencedCommit
    from kafkalite.groups.modern.ownership import GroupOwnership
    from kafkalite.protocol.error_codes import ErrorCode


def fencing_facts(
    group: ModernGroup[Any, Any, Any], claim: CommitClaim, fenced: FencedCommit
) -> dict[str, object]:
    """Return the facts of a refused commit that do not concern a partition."""
    return {
        "rule": fenced.rule,
        "member_id": claim.member_id,
        "received_epoch": fenced.epoch,
        "member_epoch": fenced.committer.member_epoch,
        "revocation_epoch": fenced.committer.revocation.epoch,
        "target_epoch": group.target_epoch,
        "group_epoch": group.epoch,
    }


def commit_refused_error(
    code: ErrorCode,
    description: str,
    fenced: FencedCommit,
    reason: str,
    *,
    owner_text: str,
    facts: dict[str, object],
) -> KafkaError:
    """Return the error for a refused commit.

    `description` names the commit and its partition; `owner_text` says who owns the partition now.
    """
    text = (
        f"{description} at epoch {fenced.epoch} refused: {reason} (rule {fenced.rule}){owner_text}"
    )
    return KafkaError(code, text, facts)


def owner_since_text(
    ownership: GroupOwnership,
    key: bytes,
    partition: int,
    owner: MemberId,
    member_id: MemberId,
    *,
    facts: dict[str, object],
) -> str:
    """Return a text about the owner of a partition, "" if it is this member; adds to `facts`."""
    since_ms = ownership.owner_since_ms(key, partition, owner)
    facts["owner_since_ms"] = since_ms
    if owner == member_id:
        return ""
    since = "" if since_ms is None else f" since {time_of_day(since_ms)}"
    return f"; current owner: {owner}{since}"
