"""Upgrade: a classic group with members becomes a consumer group when a consumer member joins.

No member loses partitions. Their last assignments become their current and target assignments, and
the generation becomes the group epoch, the target epoch and the member epochs. Then the join raises
the group epoch as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, Event, Reply
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.rebalance import join_key, sync_key
from kafkalite.groups.classic.responses import join_error_response, sync_error_response
from kafkalite.groups.classic.sessions import SessionExpired
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import (
    ClassicProtocolMember,
    CurrentAssignment,
    MemberMetadata,
)
from kafkalite.groups.migration.consumer_protocol import (
    by_topic_id,
    parse_assignment,
    parse_subscription,
)
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.groups.modern.group import NEVER_ASSIGNED_MS
from kafkalite.groups.modern.offset_commit_fencing import Revocation
from kafkalite.groups.modern.topics import metadata_hash
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import count_text
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.metadata.image import MetadataImage


class UpgradedGroup(NamedTuple):
    """The group of a heartbeat; if it was upgraded or replaced, with the effects of that."""

    group: ConsumerGroup
    records: Sequence[Record] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()
    sessions: Mapping[MemberId, int] = {}
    """Member id → its session timeout in ms; these sessions start now."""
    events: Sequence[Event] = ()


def upgrade_group(group: ClassicGroup, directory: GroupDirectory) -> UpgradedGroup:
    """Return a consumer group made from a classic group; the classic group is not changed.

    Waiting requests get REBALANCE_IN_PROGRESS, so their members rejoin. Raises
    KafkaError(GROUP_ID_NOT_FOUND) if the policy or a member does not allow the upgrade.
    """
    _check_upgrade_allowed(group, directory.config)
    soft, image = group.soft, directory.image
    upgraded_group = ConsumerGroup(group.group_id, directory)
    upgraded_group.replay_target_epoch(soft.generation_id, NEVER_ASSIGNED_MS)
    owners: dict[tuple[bytes, int], MemberId] = {}
    for member in soft.members.values():
        metadata, assigned = _parse_member(group, member, image)
        for topic_id, indexes in assigned.items():
            for index in indexes:
                if owners.setdefault((topic_id, index), member.member_id) != member.member_id:
                    raise _unexpected_state_error(
                        group, f"partition {index} is assigned to two of its members"
                    )
        upgraded_group.replay_member_metadata(member.member_id, metadata)
        upgraded_group.replay_target(member.member_id, assigned)
        upgraded_group.replay_current(
            member.member_id, _current_assignment(assigned, soft.generation_id)
        )
    upgraded_group.replay_epoch(
        soft.generation_id, metadata_hash(upgraded_group.subscribed_topics(), image)
    )
    return UpgradedGroup(
        upgraded_group,
        records=[*group.tombstones(), *_records_of(upgraded_group)],
        replies=list(_replies(group)),
        timers=[
            *(CancelTimer(SessionExpired(group.group_id, m)) for m in soft.members),
            *(CancelTimer(SessionExpired(group.group_id, m)) for m in sorted(soft.pending_joins)),
            CancelTimer(join_key(group)),
            CancelTimer(sync_key(group)),
        ],
        sessions={each.member_id: each.session_timeout_ms for each in soft.members.values()},
        events=[_upgraded_event(group)],
    )


def _check_upgrade_allowed(group: ClassicGroup, config: BrokerConfig) -> None:
    max_size = config.int("group.consumer.max.size")
    policy = migration_policy(config)
    if not policy.upgrades:
        reason = f"group.consumer.migration.policy is {policy.value}"
        raise _upgrade_refused_error(group, ErrorText.UPGRADE_IS_DISABLED, reason)
    if group.soft.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = f"its protocol type is {group.soft.protocol_type}"
        raise _upgrade_refused_error(group, ErrorText.UPGRADE_OF_ANOTHER_PROTOCOL, reason)
    if len(group.soft.members) > max_size:
        reason = f"it has more than {max_size} members"
        raise _upgrade_refused_error(group, ErrorText.UPGRADE_IS_TOO_LARGE, reason)


def _parse_member(
    group: ClassicGroup, member: ClassicMember, image: MetadataImage
) -> tuple[MemberMetadata, Assignment]:
    """Return a member's metadata and assignment in the consumer group."""
    metadata = next((body for name, body in member.protocols if name == _protocol(group)), None)
    if metadata is None:
        raise _unexpected_state_error(
            group, "it has not chosen a protocol that all its members support"
        )
    try:
        subscription = parse_subscription(metadata)
        # A member that has not completed a rebalance has no assignment.
        assigned = parse_assignment(member.assignment) if member.assignment else None
    except ValueError as error:
        reason = f"the subscription or assignment of member {member.member_id} is malformed"
        raise _upgrade_refused_error(group, ErrorText.UPGRADE_IS_MALFORMED, reason) from error
    if assigned is not None and assigned.has_user_data:
        reason = "its custom assignor would lose its user data"
        raise _upgrade_refused_error(group, ErrorText.UPGRADE_OF_CUSTOM_ASSIGNOR, reason)
    return (
        MemberMetadata(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=subscription.topics,
            classic=ClassicProtocolMember(
                session_timeout_ms=member.session_timeout_ms, protocols=tuple(member.protocols)
            ),
        ),
        {} if assigned is None else by_topic_id(assigned.partitions, image),
    )


def _protocol(group: ClassicGroup) -> str | None:
    return group.soft.protocol_name


def _current_assignment(assigned: Assignment, generation_id: int) -> CurrentAssignment:
    """Return a member's current assignment; commits of earlier generations are fenced."""
    return CurrentAssignment(
        member_epoch=generation_id,
        previous_member_epoch=generation_id,
        assigned={topic: dict.fromkeys(owned, generation_id) for topic, owned in assigned.items()},
        revocation=Revocation(max(generation_id - 1, 0)),
    )


def _records_of(group: ConsumerGroup) -> Iterator[Record]:
    """Yield the records that create this group, in Kafka's order."""
    group_id = group.group_id
    for member_id, member in group.members.items():
        yield records.member_metadata_record(group_id, member_id, member)
    yield records.group_epoch_record(group_id, group.epoch, group.metadata_hash)
    for member_id in group.members:
        yield records.target_assignment_record(group_id, member_id, group.target[member_id])
    yield records.target_epoch_record(group_id, group.target_epoch, group.target_timestamp_ms)
    for member_id in group.members:
        current = group.current[member_id]
        yield records.current_assignment_record(group_id, member_id, current)


def _replies(group: ClassicGroup) -> Iterator[Reply]:
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.soft.members.values():
        if member.awaiting_join is not None:
            yield Reply(member.awaiting_join, join_error_response(code, member.member_id))
        if member.awaiting_sync is not None:
            yield Reply(member.awaiting_sync, sync_error_response(code))


def _upgraded_event(group: ClassicGroup) -> Event:
    soft = group.soft
    return Event(
        group.group_id,
        "upgraded",
        f"the classic group became a consumer group at epoch {soft.generation_id} with "
        f"{count_text(len(soft.members), 'classic member')}",
        {
            "epoch": soft.generation_id,
            "classic_members": len(soft.members),
            "classic_state": soft.state.value,
        },
    )


def _upgrade_refused_error(group: ClassicGroup, text: ErrorText, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        text.format(group_id=group.group_id),
        {"rule": "migration", "reason": reason, "generation": group.soft.generation_id},
        f"The classic group {group.group_id} cannot become a consumer group: {reason}.",
    )


def _unexpected_state_error(group: ClassicGroup, reason: str) -> KafkaError:
    """Return Kafka's error for an unexpected state; it has no message for the client."""
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        facts={"rule": "migration", "reason": reason, "generation": group.soft.generation_id},
    )
