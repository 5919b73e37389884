"""Upgrade: a classic group with members becomes a consumer group, when somebody joins it as one.

Nobody loses a partition by it. What the members were assigned last is what they have and what they
should have; the generation becomes the epoch of everything; the join that caused the upgrade then
moves the group on like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import CancelTimer, Event, Reply
from kafkalite.groups.classic.answers import join_refused, sync_refused
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.rebalance import join_key, sync_key
from kafkalite.groups.classic.sessions import SessionExpired
from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import (
    ClassicProtocolMember,
    CurrentAssignment,
    MemberMetadata,
)
from kafkalite.groups.consumer.topics import metadata_hash
from kafkalite.groups.fencing import Revocation
from kafkalite.groups.migration.embedded import assigned_of, by_topic_id, subscription_of
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.groups.replaying import NEVER_ASSIGNED_MS
from kafkalite.protocol.error_codes import ErrorCode
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


class Opened(NamedTuple):
    """A consumer group as a joining member finds it, and what is written to have it so."""

    group: ConsumerGroup
    records: Sequence[Record] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()
    sessions: Mapping[MemberId, int] = {}
    """How long each member may be silent from now on, in ms, by its own word."""
    events: Sequence[Event] = ()


def upgraded(group: ClassicGroup, directory: GroupDirectory) -> Opened:
    """Return what a classic group is as a consumer group; the classic one is left as it is.

    Whoever waits in the middle of a rebalance is told of another one, and will join that.
    KafkaError(GROUP_ID_NOT_FOUND) when the policy or a member stands against it.
    """
    _check(group, directory.config)
    soft, image = group.soft, directory.image
    made = ConsumerGroup(group.group_id, directory)
    made.replay_target_epoch(soft.generation_id, NEVER_ASSIGNED_MS)
    owners: dict[tuple[bytes, int], MemberId] = {}
    for member in soft.members.values():
        metadata, assigned = _read(group, member, image)
        for topic_id, indexes in assigned.items():
            for index in indexes:
                if owners.setdefault((topic_id, index), member.member_id) != member.member_id:
                    raise _unfit(group, f"partition {index} is assigned to two of its members")
        made.replay_member_metadata(member.member_id, metadata)
        made.replay_target(member.member_id, assigned)
        made.replay_current(member.member_id, _standing(assigned, soft.generation_id))
    made.replay_epoch(soft.generation_id, metadata_hash(made.subscribed_topics(), image))
    return Opened(
        made,
        records=[*group.tombstones(), *_records_of(made)],
        replies=list(_releases(group)),
        timers=[
            *(CancelTimer(SessionExpired(group.group_id, m)) for m in soft.members),
            *(CancelTimer(SessionExpired(group.group_id, m)) for m in sorted(soft.pending_joins)),
            CancelTimer(join_key(group)),
            CancelTimer(sync_key(group)),
        ],
        sessions={each.member_id: each.session_timeout_ms for each in soft.members.values()},
        events=[_event(group)],
    )


def _check(group: ClassicGroup, config: BrokerConfig) -> None:
    max_size = config.int("group.consumer.max.size")
    policy = migration_policy(config)
    reason = None
    if not policy.upgrades:
        reason = f"group.consumer.migration.policy is {policy.value}"
    elif group.soft.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = f"its members speak of type {group.soft.protocol_type}"
    elif len(group.soft.members) > max_size:
        reason = f"it has more than {max_size} members"
    if reason is not None:
        raise _refused(group, reason)


def _read(
    group: ClassicGroup, member: ClassicMember, image: MetadataImage
) -> tuple[MemberMetadata, Assignment]:
    """Return what a member subscribes to, and its partitions, as a consumer group keeps them."""
    metadata = next((body for name, body in member.protocols if name == _protocol(group)), None)
    if metadata is None:
        raise _unfit(group, "it has not settled on a protocol that all its members know")
    try:
        subscription = subscription_of(metadata)
        # A member that has not been through a whole rebalance has none.
        assigned = assigned_of(member.assignment) if member.assignment else None
    except ValueError as error:
        raise _refused(group, f"the words of member {member.member_id} are malformed") from error
    if assigned is not None and assigned.has_user_data:
        raise _refused(group, "an assignor of its own would lose what it told the members")
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


def _standing(assigned: Assignment, generation_id: int) -> CurrentAssignment:
    """Return where a member stands; what it committed in generations before no longer counts."""
    return CurrentAssignment(
        member_epoch=generation_id,
        previous_member_epoch=generation_id,
        assigned={topic: dict.fromkeys(owned, generation_id) for topic, owned in assigned.items()},
        revocation=Revocation(max(generation_id - 1, 0)),
    )


def _records_of(group: ConsumerGroup) -> Iterator[Record]:
    """Yield the records that make this group out of nothing, in Kafka's order."""
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


def _releases(group: ClassicGroup) -> Iterator[Reply]:
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.soft.members.values():
        if member.awaiting_join is not None:
            yield Reply(member.awaiting_join, join_refused(code, member.member_id))
        if member.awaiting_sync is not None:
            yield Reply(member.awaiting_sync, sync_refused(code))


def _event(group: ClassicGroup) -> Event:
    soft = group.soft
    return Event(
        group.group_id,
        "upgraded",
        f"The classic group became a consumer group at epoch {soft.generation_id}; members of the "
        f"classic protocol: {len(soft.members)}.",
        {
            "epoch": soft.generation_id,
            "classic_members": len(soft.members),
            "classic_state": soft.state.value,
        },
    )


def _refused(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"The classic group {group.group_id} cannot become a consumer group: {reason}.",
        {"rule": "migration", "reason": reason, "generation": group.soft.generation_id},
    )


def _unfit(group: ClassicGroup, reason: str) -> KafkaError:
    """Refuse as Kafka does where it did not foresee a refusal: without a word to the client."""
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        facts={"rule": "migration", "reason": reason, "generation": group.soft.generation_id},
    )
