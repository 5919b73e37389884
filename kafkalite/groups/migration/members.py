"""ClassicMembers: members of the classic protocol in consumer groups (KIP-848).

They send JoinGroup, SyncGroup and Heartbeat as ever. To them a generation is their member epoch,
and the coordinator is the leader: whoever joins takes one step of the reconciliation, whoever syncs
is told what that step has left it with, and a heartbeat tells it to join again when there is
another step to take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.classic.answers import sync_refused
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kafkalite.groups.classic.refusals import refusal_event
from kafkalite.groups.consumer.admission import check_holds_instance, member_or_refuse
from kafkalite.groups.consumer.events import LATE
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import ClassicProtocolMember, MemberState
from kafkalite.groups.consumer.sessions import JoinExpiry, SyncExpiry, cancel_sync_timer
from kafkalite.groups.migration.embedded import assignment_bytes, version_of
from kafkalite.groups.migration.joins import ClassicJoins
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.consumer.heartbeat import ConsumerGroups
    from kafkalite.groups.consumer.member import CurrentAssignment
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kafkalite.protocol.messages.sync_group import SyncGroupRequest

R = TypeVar("R")


class ClassicMembers:
    """The members of one shard's consumer groups that speak the classic protocol."""

    def __init__(self, directory: GroupDirectory, consumer: ConsumerGroups) -> None:
        self._directory = directory
        self._consumer = consumer
        self._sessions = consumer.sessions
        self._joins = ClassicJoins(directory, consumer)
        self.replayers: Mapping[type, Callable[..., None]] = {}
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            JoinExpiry: self.expire_step,
            SyncExpiry: self.expire_step,
        }

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Decide a JoinGroup to a consumer group with members; it is answered at once."""
        return self._joins.join(group, request, caller, now_ms)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        """Decide a SyncGroup: tell the member what it has now."""
        group_id, member_id = group.group_id, request.member_id
        try:
            classic, current = _member_at(
                group, member_id, request.group_instance_id, request.generation_id
            )
            _check_protocol(classic, request)
            version = _version(classic)
        except KafkaError as refusal:
            told = refusal_event(group_id, refusal, member_id=member_id)
            return CoordinatorResult(sync_refused(refusal.code), events=[told])
        if (
            group.target_epoch > current.member_epoch
            and current.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            refused = sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
            return self._called(refused, group, member_id, now_ms)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(current.assigned, self._directory.image, version),
        )
        deadline_ms = now_ms + classic.session_timeout_ms
        session = self._sessions.extend(group_id, member_id, deadline_ms)
        timers: list[TimerChange] = [cancel_sync_timer(group_id, member_id)]
        return CoordinatorResult(answer, timers=timers if session is None else [*timers, session])

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ErrorCode]:
        """Take a sign of life, and tell the member whether it is to join again."""
        group_id, member_id = group.group_id, request.member_id
        try:
            classic, current = _member_at(
                group, member_id, request.group_instance_id, request.generation_id
            )
        except KafkaError as refusal:
            told = refusal_event(group_id, refusal, member_id=member_id)
            return CoordinatorResult(refusal.code, events=[told])
        timer = self._sessions.extend(group_id, member_id, now_ms + classic.session_timeout_ms)
        timers: tuple[TimerChange, ...] = () if timer is None else (timer,)
        if not _has_a_step_to_take(group, member_id, current):
            return CoordinatorResult(ErrorCode.NONE, timers=timers)
        called = self._called(ErrorCode.REBALANCE_IN_PROGRESS, group, member_id, now_ms)
        return called._replace(timers=(*timers, *called.timers))

    def _called(
        self, answer: R, group: ConsumerGroup, member_id: MemberId, now_ms: int
    ) -> CoordinatorResult[R]:
        """Tell a member to join again; from the first time on, it has so long to do so."""
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        timers = self._sessions.must_join(group.group_id, member_id, now_ms + timeout_ms)
        if not timers:
            return CoordinatorResult(answer)
        epoch = group.current_of(member_id).member_epoch
        text = f"member {member_id} is called to join again, at epoch {epoch} of {group.epoch}"
        facts = {
            "member_id": member_id,
            "member_epoch": epoch,
            "group_epoch": group.epoch,
            "timeout_ms": timeout_ms,
        }
        event = Event(group.group_id, "called", text, facts)
        return CoordinatorResult(answer, timers=timers, events=(event,))

    # Timers

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Do nothing: after loading, a session is all the time that any member is given."""
        del now_ms
        return CoordinatorResult(None)

    def expire_step(self, event: JoinExpiry | SyncExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that did not join, or did not sync, in the time it had.

        One that has gone over to the consumer protocol meanwhile has neither to do.
        """
        group = self._directory.groups.get(event.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(event.member_id)
            if member is not None and member.classic is not None:
                return self._consumer.fence(event.group_id, event.member_id, LATE, now_ms)
        return CoordinatorResult(None)


def _member_at(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None, generation_id: int
) -> tuple[ClassicProtocolMember, CurrentAssignment]:
    """Return the classic member a request names; KafkaError unless it is at this generation."""
    if instance_id is not None:
        check_holds_instance(group, member_id, instance_id)
    member = member_or_refuse(group, member_id)
    current = group.current_of(member_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} speaks the consumer protocol."
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
            f"Member {request.member_id} joined by protocol {name} of type consumer.",
        )


def _version(classic: ClassicProtocolMember) -> int:
    """Return the version a member reads assignments in; it is the one of what it said first."""
    try:
        return version_of(classic.protocols[0][1])
    except ValueError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "What the member subscribes to is malformed."
        ) from error


def _has_a_step_to_take(
    group: ConsumerGroup, member_id: MemberId, current: CurrentAssignment
) -> bool:
    """Whether joining again would take a member on: to a target, or to what is free."""
    if current.member_epoch < group.target_epoch:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return current.state is MemberState.UNREVOKED_PARTITIONS
    return all(
        group.owner_of(topic_id, partition) is None
        for topic_id, wanted in group.target.get(member_id, {}).items()
        for partition in wanted - current.assigned.get(topic_id, {}).keys()
    )
