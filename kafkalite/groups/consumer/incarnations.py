"""Incarnations: which of two that come with one member id is fenced, as KIP-1082 first had it.

Kafka takes whoever joins with a known id for the member itself, and that is the default here. With
`group.consumer.member.id.validation=uuid` their epochs are compared: the one at the lower epoch,
zero for one that joins, is told FENCED_MEMBER_EPOCH.

Two joins are no conflict. A member that was itself fenced at its epoch may join anew, and so may
one whose first answer was lost: it never showed its epoch.

What members have shown is soft state. After a restart everybody may join once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.member import JOIN_EPOCH
from kafkalite.groups.consumer.settings import MEMBER_ID_UUID
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import MemberId


def check_incarnation(group: ConsumerGroup, member_id: MemberId, member_epoch: int) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) for one that joins by the id of one that is further."""
    if member_epoch != JOIN_EPOCH or member_id not in group.soft.shown:
        return
    expected = group.current_of(member_id).member_epoch
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"join of member {member_id} refused: another incarnation with this id is at epoch "
        f"{expected}, which is the higher one (rule {MEMBER_ID_UUID})",
        {
            "rule": MEMBER_ID_UUID,
            "member_id": member_id,
            "epoch": member_epoch,
            "member_epoch": expected,
        },
    )


def showed_epoch(group: ConsumerGroup, member_id: MemberId) -> None:
    """Note that a member has come with the epoch it was given: its answers reach it."""
    group.soft.shown[member_id] = None


def may_join_anew(group: ConsumerGroup, member_id: MemberId) -> None:
    """Note that a member joined, went, or was told to join: the next join is no conflict."""
    group.soft.shown.pop(member_id, None)
    # Or else its next steady heartbeat would not be looked at closely.
    group.soft.answers.pop(member_id, None)
