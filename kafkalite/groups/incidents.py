"""Incidents in groups: expelled members, raised epochs, rebalances and replaced static members.

Faults and commands decide them, with the records and events of decisions about requests. `cause`
names what caused one, such as "fault f1"; the events have it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.member import Caller
from kafkalite.groups.classic.rebalance import RebalanceReason
from kafkalite.groups.consumer import consumer_group_records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.modern.events import Departure, group_epoch_raised_event
from kafkalite.groups.modern.group import ModernGroup
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Client
from kafkalite.groups.share import share_group_records
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.streams import streams_group_records
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kafkalite.coordinator.contract import Decision
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.modern.record_types import RecordTypes
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

EXPELLED: Final = "expelled"
"""The kind of event of an expelled member."""
_RULE: Final = "incident"


class _Records(NamedTuple):
    """The records of one type of modern groups with the epochs of members."""

    types: RecordTypes
    current: Callable[[GroupId, MemberId, Any], Record]
    assigned_at: Callable[[Any, int], Any]
    """(current assignment, epoch) → the same partitions or tasks, assigned at this epoch."""
    is_revoking: Callable[[Any], bool]
    """Whether a member has not revoked all that its current assignment does not contain."""


_RECORDS: Final = {
    ConsumerGroup: _Records(
        consumer_group_records.TYPES,
        consumer_group_records.current_assignment_record,
        lambda current, epoch: replace(
            current,
            assigned={
                topic: dict.fromkeys(each, epoch) for topic, each in current.assigned.items()
            },
        ),
        lambda current: bool(current.pending_revocation),
    ),
    ShareGroup: _Records(
        share_group_records.TYPES,
        share_group_records.current_assignment_record,
        lambda current, _: current,
        lambda _: False,
    ),
    StreamsGroup: _Records(
        streams_group_records.TYPES,
        streams_group_records.current_tasks_record,
        lambda current, epoch: replace(
            current,
            assigned=replace(
                current.assigned,
                active={
                    name: dict.fromkeys(each, epoch)
                    for name, each in current.assigned.active.items()
                },
            ),
        ),
        lambda current: not current.pending_revocation.is_empty(),
    ),
}


def expel(
    machine: GroupShard,
    now_ms: int,
    *,
    group_id: GroupId,
    member_ids: Collection[MemberId],
    cause: str,
) -> CoordinatorResult[Sequence[MemberId]]:
    """Remove members as if their sessions had ended; the response has those that existed."""
    departure = Departure(EXPELLED, f"expelled by {cause}")
    return machine.expel_members(group_id, member_ids, departure, now_ms)


def begin_rebalance(
    machine: GroupShard, now_ms: int, *, group_id: GroupId, cause: str
) -> CoordinatorResult[bool]:
    """Begin a rebalance, unless one has begun; the response is whether the group has members.

    The group epoch of a modern group is raised, so that the assignor runs again.
    """
    group = machine.directory.groups.get(group_id)
    text = f"{cause} began a rebalance"
    if isinstance(group, ClassicGroup):
        reason = RebalanceReason(_RULE, text)
        return machine.classic.begin_rebalance(group, reason, now_ms, skips_generation=False)
    if not isinstance(group, ModernGroup) or group.is_empty():
        return CoordinatorResult(response=False)
    if group.epoch > group.target_epoch:
        return CoordinatorResult(response=True)
    epoch = group.epoch + 1
    event = group_epoch_raised_event(group_id, epoch, [text])
    return CoordinatorResult(True, [_group_epoch_record(group, epoch)], events=[event])


def raise_epoch(
    machine: GroupShard,
    now_ms: int,
    *,
    group_id: GroupId,
    member_id: MemberId,
    cause: str,
    keeps_previous: bool,
) -> CoordinatorResult[bool]:
    """Raise the generation of a classic group, or the epoch of a member of a modern one.

    The member does not know it, as if an answer was lost. Heartbeats at the epoch that it knows are
    refused, unless `keeps_previous`; commits are refused in both cases. The response is whether the
    epoch was raised: that of a member that has to revoke partitions is not.
    """
    group = machine.directory.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        if member_id not in group.soft.members:
            return CoordinatorResult(response=False)
        reason = RebalanceReason(_RULE, f"{cause} raised the generation")
        return machine.classic.begin_rebalance(group, reason, now_ms, skips_generation=True)
    if not isinstance(group, ModernGroup) or member_id not in group.current:
        return CoordinatorResult(response=False)
    records, current = _RECORDS[type(group)], group.current[member_id]
    if current.member_epoch <= JOIN_EPOCH or records.is_revoking(current):
        return CoordinatorResult(response=False)
    # Heartbeats are valid at the previous epoch, so they are refused only after another epoch.
    epoch = group.epoch + (1 if keeps_previous else 2)
    raised = replace(
        records.assigned_at(current, epoch),
        member_epoch=epoch,
        previous_member_epoch=current.member_epoch if keeps_previous else epoch - 1,
    )
    event = _raised_event(group, member_id, epoch, f"{cause} raised the epoch")
    return CoordinatorResult(
        response=True,
        records=[
            # An assignor that has to run still has to.
            _group_epoch_record(group, epoch + (group.epoch > group.target_epoch)),
            records.types.target_epoch_record(group_id, epoch, now_ms),
            records.current(group_id, member_id, raised),
        ],
        events=[event],
    )


def _raised_event(
    group: ModernGroup[Any, Any, Any], member_id: MemberId, epoch: int, reason: str
) -> Event:
    before = group.current[member_id].member_epoch
    return Event(
        group.group_id,
        "rebalance",
        f"group epoch {group.epoch} → {epoch}, epoch of member {member_id} {before} → {epoch}: "
        f"{reason}",
        {"rule": _RULE, "group_epoch": epoch, "member_id": member_id, "member_epoch": epoch},
    )


def replace_instance(
    machine: GroupShard, group_id: GroupId, instance_id: str, cause: str
) -> Sequence[Decision[GroupShard, Any]]:
    """Return the decisions by which another member takes over an instance id.

    They are those about the requests of a second process with this instance id. They are empty if
    no member has it, and for streams groups, whose members send their topologies when they join.
    """
    group = machine.directory.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        member = group.soft.members.get(group.soft.static_members.get(instance_id, ""))
        if member is None:
            return ()
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            group_instance_id=instance_id,
            protocol_type=member.protocol_type,
            protocols=_protocols(member.protocols),
            reason=cause,
        )
        caller = Caller(client_id=member.client_id, client_host=member.client_host)
        return [lambda machine, now_ms: machine.join(request, caller, now_ms)]
    if not isinstance(group, ConsumerGroup) or instance_id not in group.static_members:
        return ()
    holder = group.static_members[instance_id]
    return _takeover(machine, group, holder, instance_id, cause)


def _takeover(
    machine: GroupShard, group: ConsumerGroup, holder: MemberId, instance_id: str, cause: str
) -> Sequence[Decision[GroupShard, Any]]:
    """Return the decisions about the requests of both members of a consumer group."""
    group_id, member = group.group_id, group.members[holder]
    if member.classic is not None:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=member.classic.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            group_instance_id=instance_id,
            protocol_type=group.protocol_type,
            protocols=_protocols(member.classic.protocols),
            reason=cause,
        )
        caller = Caller(client_id=member.client_id, client_host=member.client_host)
        return [lambda machine, now_ms: machine.join(request, caller, now_ms)]
    client = Client(member.client_id, member.client_host, None)
    successor = uuid_to_text(machine.directory.entropy.uuid())
    requests = [
        ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            member_epoch=epoch,
            topic_partitions=reported,
        )
        for member_id, epoch, reported in (
            (holder, STATIC_LEAVE_EPOCH, None),
            (successor, JOIN_EPOCH, []),
        )
    ]
    return [partial(_heartbeat, request=request, client=client) for request in requests]


def _heartbeat(
    machine: GroupShard, now_ms: int, request: ConsumerGroupHeartbeatRequest, client: Client
) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
    return machine.consumer.heartbeat(request, client, now_ms)


def _protocols(
    protocols: Iterable[tuple[str, bytes]],
) -> list[JoinGroupRequest.JoinGroupRequestProtocol]:
    return [
        JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
        for name, metadata in protocols
    ]


def _group_epoch_record(group: ModernGroup[Any, Any, Any], epoch: int) -> Record:
    if isinstance(group, StreamsGroup):
        return group.metadata_record(epoch)
    if isinstance(group, ShareGroup):
        return share_group_records.group_epoch_record(group.group_id, epoch, group.metadata_hash)
    return consumer_group_records.group_epoch_record(group.group_id, epoch, group.metadata_hash)
