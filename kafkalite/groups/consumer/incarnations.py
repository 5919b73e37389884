"""Incarnations: detection of two clients with the same member id, as KIP-1082 first proposed.

By default, as in Kafka, a client that joins with a known member id is treated as that member. With
`group.consumer.member.id.validation=uuid` the epochs of the clients are compared: the client with
the lower epoch gets FENCED_MEMBER_EPOCH. The epoch of a join is 0.

A join may be repeated because its response may be lost. The first heartbeat at the epoch of the
join confirms the join. After that a second join is refused. A client whose epoch is fenced must
rejoin, so the join of its member counts as unconfirmed again.

A tagged field of the member's current assignment records the confirmation, so that it survives a
restart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer.settings import MEMBER_ID_UUID
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.consumer.admission import AdmittedMember, Identity
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import Record


def check_incarnation(group: ConsumerGroup, member: Identity) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) for a join of a member whose join is confirmed."""
    current = group.current_of(member.member_id)
    if member.member_epoch != JOIN_EPOCH or not current.is_join_confirmed:
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"join of member {member.member_id} refused: another client with this member id has the "
        f"higher epoch {current.member_epoch} (rule {MEMBER_ID_UUID})",
        {
            "rule": MEMBER_ID_UUID,
            "member_id": member.member_id,
            "received_epoch": member.member_epoch,
            "member_epoch": current.member_epoch,
        },
    )


def with_join_confirmation(admitted: AdmittedMember, *, is_join_confirmed: bool) -> AdmittedMember:
    """Return the admitted member with this confirmation."""
    if admitted.current.is_join_confirmed == is_join_confirmed:
        return admitted
    current = replace(admitted.current, is_join_confirmed=is_join_confirmed)
    return replace(admitted, current=current)


def records_to_allow_rejoin(group: ConsumerGroup, member: Identity) -> list[Record]:
    """Return the record that allows a fenced client to rejoin, [] if it can rejoin already.

    A refused join changes nothing.
    """
    current = group.current_of(member.member_id)
    if member.member_epoch == JOIN_EPOCH or not current.is_join_confirmed:
        return []
    unconfirmed = replace(current, is_join_confirmed=False)
    return [records.current_assignment_record(group.group_id, member.member_id, unconfirmed)]
