"""ClassicMembers: members of the classic protocol in consumer groups (KIP-848).

They send JoinGroup, SyncGroup and Heartbeat. Their generation is the member epoch, and the
coordinator has the leader's role. A JoinGroup takes one step of the reconciliation, a SyncGroup
returns the current assignment, and a Heartbeat returns REBALANCE_IN_PROGRESS if another step is
possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.classic.responses import sync_error_response
from kafkalite.groups.consumer.events import JOIN_OR_SYNC_TIMED_OUT
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import ClassicProtocolMember, MemberState
from kafkalite.groups.consumer.sessions import JoinExpiry, SyncExpiry, cancel_sync_timer
from kafkalite.groups.migration.consumer_protocol import encode_assignment, parse_version
from kafkalite.groups.migration.joins import ClassicJoins
from kafkalite.groups.modern.admission import check_holds_instance, find_member
from kafkalite.protocol._generated.messages.sync_group import SyncGroupResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.classic.member import Caller
    from kafkalite.groups.consumer.groups import ConsumerGroups
    from kafkalite.groups.consumer.member import CurrentAssignment
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol._generated.messages.join_group import (
        JoinGroupRequest,
        JoinGroupResponse,
    )
    from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest

R = TypeVar("R")


class ClassicMembers:
    """The classic members of one shard's consumer groups."""

    def __init__(self, directory: GroupDirectory, consumer: ConsumerGroups) -> None:
        self._directory = directory
        self._consumer = consumer
        self._sessions = consumer.sessions
        self._joins = ClassicJoins(directory, consumer)
        self.replayers: Mapping[type, Callable[..., None]] = {}
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            JoinExpiry: self.expire_join_or_sync,
            SyncExpiry: self.expire_join_or_sync,
        }

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Handle a JoinGroup to a consumer group with members."""
        return self._joins.join(group, request, caller, now_ms)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        """Handle a SyncGroup: return the member's current assignment."""
        group_id, member_id = group.group_id, request.member_id
        try:
            classic, current = _find_classic_member(
                group, member_id, request.group_instance_id, request.generation_id
            )
            _check_protocol(classic, request)
            version = _assignment_version(classic)
        except KafkaError as refusal:
            event = refusal_event(group_id, refusal, member_id=member_id)
            return CoordinatorResult(sync_error_response(refusal.code), events=[event])
        if (
            group.target_epoch > current.member_epoch
            and current.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            refused = sync_error_response(ErrorCode.REBALANCE_IN_PROGRESS)
            return self._ask_to_rejoin(refused, group, member_id, now_ms)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(current.assigned, self._directory.image, version),
        )
        deadline_ms = now_ms + classic.session_timeout_ms
        session = self._sessions.extend(group_id, member_id, deadline_ms)
        timers: list[TimerChange] = [cancel_sync_timer(group_id, member_id)]
        return CoordinatorResult(answer, timers=timers if session is None else [*timers, session])

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ErrorCode]:
        """Extend the session; return REBALANCE_IN_PROGRESS if the member must rejoin."""
        group_id, member_id = group.group_id, request.member_id
        try:
            classic, current = _find_classic_member(
                group, member_id, request.group_instance_id, request.generation_id
            )
        except KafkaError as refusal:
            event = refusal_event(group_id, refusal, member_id=member_id)
            return CoordinatorResult(refusal.code, events=[event])
        timer = self._sessions.extend(group_id, member_id, now_ms + classic.session_timeout_ms)
        timers: tuple[TimerChange, ...] = () if timer is None else (timer,)
        if not _can_take_step(group, member_id, current):
            return CoordinatorResult(ErrorCode.NONE, timers=timers)
        rejoin = self._ask_to_rejoin(ErrorCode.REBALANCE_IN_PROGRESS, group, member_id, now_ms)
        return rejoin._replace(timers=(*timers, *rejoin.timers))

    def _ask_to_rejoin(
        self, answer: R, group: ConsumerGroup, member_id: MemberId, now_ms: int
    ) -> CoordinatorResult[R]:
        """Return the answer; add a join timer and an event if this is the first such answer."""
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        timers = self._sessions.start_join_timer(group.group_id, member_id, now_ms + timeout_ms)
        if not timers:
            return CoordinatorResult(answer)
        epoch = group.current_of(member_id).member_epoch
        text = f"member {member_id} must rejoin: member epoch {epoch}, group epoch {group.epoch}"
        facts = {
            "member_id": member_id,
            "member_epoch": epoch,
            "group_epoch": group.epoch,
            "timeout_ms": timeout_ms,
        }
        event = Event(group.group_id, "rejoin-requested", text, facts)
        return CoordinatorResult(answer, timers=timers, events=(event,))

    # Timers

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Do nothing: after loading, members have only session timers."""
        del now_ms
        return CoordinatorResult(None)

    def expire_join_or_sync(
        self, event: JoinExpiry | SyncExpiry, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove a classic member that sent no JoinGroup or SyncGroup in time.

        A member that has changed to the consumer protocol is not removed.
        """
        group = self._directory.groups.get(event.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(event.member_id)
            if member is not None and member.classic is not None:
                return self._consumer.members.remove(
                    event.group_id, event.member_id, JOIN_OR_SYNC_TIMED_OUT, now_ms
                )
        return CoordinatorResult(None)


def _find_classic_member(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None, generation_id: int
) -> tuple[ClassicProtocolMember, CurrentAssignment]:
    """Return a request's classic member; raises KafkaError if id or generation is wrong."""
    if instance_id is not None:
        check_holds_instance(group.static_members, member_id, instance_id)
    member = find_member(group, member_id)
    current = group.current_of(member_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} uses the consumer protocol."
        )
    if generation_id != current.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Member {member_id} is at epoch {current.member_epoch}, not {generation_id}.",
            {"member_epoch": current.member_epoch, "generation": generation_id},
        )
    return member.classic, current


def _check_protocol(classic: ClassicProtocolMember, request: SyncGroupRequest) -> None:
    name, _ = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
        request.protocol_name not in (None, name)
    ):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {request.member_id} joined with protocol {name} of type consumer.",
        )


def _assignment_version(classic: ClassicProtocolMember) -> int:
    """Return the version for a member's assignments: that of its first subscription."""
    try:
        return parse_version(classic.protocols[0][1])
    except ValueError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The subscription of the member is malformed."
        ) from error


def _can_take_step(group: ConsumerGroup, member_id: MemberId, current: CurrentAssignment) -> bool:
    """Whether a rejoin would change the member's epoch or assignment."""
    if current.member_epoch < group.target_epoch:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return current.state is MemberState.UNREVOKED_PARTITIONS
    return all(
        group.owner_of(topic_id, partition) is None
        for topic_id, target in group.target.get(member_id, {}).items()
        for partition in target - current.assigned.get(topic_id, {}).keys()
    )
