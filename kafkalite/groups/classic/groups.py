"""ClassicGroups: what a shard decides on requests of the classic protocol, and replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, Parked
from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.answers import join_refused, sync_refused, synced
from kafkalite.groups.classic.draft import Draft
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.join import Joining
from kafkalite.groups.classic.leave import leave_one
from kafkalite.groups.classic.membership import Membership
from kafkalite.groups.classic.rebalance import (
    InitialDelayEnded,
    JoinExpired,
    SyncExpired,
    Why,
)
from kafkalite.groups.classic.refusals import check_protocol, other_generation, unknown_member
from kafkalite.groups.classic.sessions import SessionExpired
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.records import group_metadata_record, with_shared_texts
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol.records.group_metadata import GroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.classic.draft import Undo
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest
    from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from kafkalite.protocol.records.group_metadata import GroupMetadataValue

R = TypeVar("R")

_TOLD = 10
"""How many members an explanation names."""

# The hottest path looks these up once, for a member of an enum is not found for nothing.
_NONE = ErrorCode.NONE
_REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
_PREPARING = ClassicState.PREPARING_REBALANCE


class ClassicGroups:
    """The classic groups of a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._groups = directory.groups
        self._begun = directory.begun
        self._undo: tuple[Record, Undo] | None = None
        """Soft: how to undo the last decision, should its record not be appended."""
        self.replayers: Mapping[type, Callable[..., None]] = {
            GroupMetadataKey: self.replay_group_metadata
        }
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            SessionExpired: self.expire_session,
            InitialDelayEnded: self.end_initial_delay,
            JoinExpired: self.expire_joins,
            SyncExpired: self.expire_syncs,
        }

    # Deciders

    def join(
        self, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Decide a JoinGroup for a group that is classic, or can become so being empty."""
        draft = Draft(now_ms)
        found = self._groups.get(request.group_id)
        if isinstance(found, ClassicGroup):
            joining = Joining(draft, self._directory, found, request, caller)
            return self._decided(draft, joining.decide())
        if request.member_id:
            error = unknown_member(Membership(), "join", request.member_id)
            draft.refuse(request.group_id, error)
            return draft.result(join_refused(error.code, request.member_id))
        if found is not None:
            draft.records.extend(found.tombstones())
        begun = self._begun[request.group_id] = ClassicGroup(request.group_id)
        answer = Joining(draft, self._directory, begun, request, caller).decide()
        # Membership alone is no record, so the group says that it is there.
        empty = Membership()
        empty.state_timestamp_ms = now_ms
        record = group_metadata_record(request.group_id, empty.to_record({}))
        draft.record(record, self._never_begun(begun))
        return self._decided(draft, answer)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> CoordinatorResult[SyncGroupResponse]:
        """Decide a SyncGroup: the leader's brings the assignments that all others wait for."""
        draft = Draft(now_ms)
        try:
            group, member = self._member_in_generation(request, "sync")
            soft = group.soft
            check_protocol(request.member_id, request.protocol_type, soft.protocol_type)
            check_protocol(request.member_id, request.protocol_name, soft.protocol_name)
        except KafkaError as refusal:
            draft.refuse(request.group_id, refusal)
            return draft.result(sync_refused(refusal.code))
        if soft.state is ClassicState.PREPARING_REBALANCE:
            return draft.result(sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        rebalance.sync_received(draft, group, member)
        if soft.state is ClassicState.STABLE:
            return draft.result(synced(soft, member))
        if member.awaiting_sync is not None:
            # Its client gave up on an earlier connection; nobody may be left waiting there.
            draft.reply(member.awaiting_sync, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = self._directory.next_ticket()
        parked = Parked(member.awaiting_sync)
        if soft.is_leader(member.member_id):
            assigned = {given.member_id: given.assignment for given in request.assignments}
            self._settle(draft, group, assigned)
        return self._decided(draft, parked)

    def _settle(self, draft: Draft, group: ClassicGroup, assigned: Mapping[str, bytes]) -> None:
        """Record what the leader assigned, and answer everybody who waits for it."""
        soft = group.soft
        value = soft.to_record(assigned)
        draft.record(group_metadata_record(group.group_id, value), self._assign_nothing(group))
        soft.move_to(ClassicState.STABLE, draft.now_ms)
        text = f"generation {soft.generation_id} of group {group.group_id} has its assignment"
        facts = {"generation": soft.generation_id, "leader": soft.leader_id}
        draft.tell(group.group_id, "assigned", text, **facts, assigned=len(assigned))
        for member in soft.members.values():
            member.assignment = assigned.get(member.member_id, b"")
            if member.awaiting_sync is not None:
                draft.reply(member.awaiting_sync, synced(soft, member))
                member.awaiting_sync = None
                sessions.renew(draft, group.group_id, member, member.session_timeout_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode | None:
        """Take a sign of life and say what the member should know; None: ask `beat` instead.

        This is the hottest path of all, so it goes without a result: no record is ever written,
        and a timer is left as it stands.
        """
        group = self._groups.get(request.group_id)
        if type(group) is not ClassicGroup:
            return None
        soft = group.soft
        member = soft.members.get(request.member_id)
        if (
            member is None
            or member.group_instance_id != request.group_instance_id
            or request.generation_id != soft.generation_id
        ):
            return None
        deadline_ms = now_ms + member.session_timeout_ms
        if deadline_ms < member.armed_ms:
            return None
        member.deadline_ms = deadline_ms
        return _REBALANCE_IN_PROGRESS if soft.state is _PREPARING else _NONE

    def beat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult[ErrorCode]:
        """Decide a Heartbeat in full: refusals, and timers to be set."""
        draft = Draft(now_ms)
        try:
            group, member = self._member_in_generation(request, "heartbeat")
        except KafkaError as refusal:
            draft.refuse(request.group_id, refusal)
            return draft.result(refusal.code)
        sessions.renew(draft, group.group_id, member, member.session_timeout_ms)
        if group.soft.state is ClassicState.PREPARING_REBALANCE:
            return draft.result(ErrorCode.REBALANCE_IN_PROGRESS)
        return draft.result(ErrorCode.NONE)

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Decide a LeaveGroup: each member by itself, then one rebalance for all who left."""
        draft = Draft(now_ms)
        found = self._groups.get(request.group_id)
        group = found if isinstance(found, ClassicGroup) else None
        answers = []
        gone: list[MemberId] = []
        for leaving in request.members:
            code = ErrorCode.NONE
            try:
                gone.append(leave_one(draft, request.group_id, group, leaving))
            except KafkaError as refusal:
                draft.refuse(request.group_id, refusal)
                code = refusal.code
            answers.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=code,
                )
            )
        if group is not None and gone:
            text = f"{', '.join(gone[:_TOLD])} left"
            self._rebalance_without(draft, group, Why("member-left", text, gone))
        answer = LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
        return self._decided(draft, answer)

    def _rebalance_without(self, draft: Draft, group: ClassicGroup, why: Why) -> None:
        """Let those who stay rebalance after somebody has gone."""
        if group.soft.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            rebalance.prepare(draft, group, self._directory.config, why)
        else:
            rebalance.maybe_complete(draft, group)

    # Timers and moves of the coordinator

    def expire_session(self, event: SessionExpired, now_ms: int) -> CoordinatorResult[None]:
        """Drop a member that gave no sign of life, or an id that nobody came back with."""
        draft = Draft(now_ms)
        group = self._groups.get(event.group_id)
        if not isinstance(group, ClassicGroup):
            return draft.result(None)
        soft = group.soft
        member = soft.members.get(event.member_id)
        if event.member_id in soft.pending_joins:
            soft.remove(event.member_id)
            text = f"the id {event.member_id} was given out and nobody came back with it in time"
            facts = {"rule": "pending-join", "member_id": event.member_id}
            draft.tell(group.group_id, "expired", text, **facts)
            rebalance.complete_if_all_joined(draft, group)
        elif member is not None:
            sessions.disarm(member)
            if now_ms < member.deadline_ms:
                sessions.arm(draft, group.group_id, member)
            elif not member.has_satisfied_heartbeat():
                self._end_session(draft, group, member)
        return self._decided(draft, None)

    def _end_session(self, draft: Draft, group: ClassicGroup, member: ClassicMember) -> None:
        rule, timeout_ms = "session-timeout", member.session_timeout_ms
        if member.is_new:
            rule, timeout_ms = "new-member-join-timeout", sessions.NEW_MEMBER_JOIN_TIMEOUT_MS
        text = f"member {member.member_id} gave no sign of life for {timeout_ms} ms ({rule})"
        facts = {"rule": rule, "member_id": member.member_id, "timeout_ms": timeout_ms}
        draft.tell(group.group_id, "expired", text, **facts, client_id=member.client_id)
        rebalance.strike_off(draft, group, member)
        if group.soft.state is ClassicState.PREPARING_REBALANCE:
            rebalance.complete_if_all_joined(draft, group)
        else:
            self._rebalance_without(draft, group, Why(rule, text, [member.member_id]))

    def end_initial_delay(self, event: InitialDelayEnded, now_ms: int) -> CoordinatorResult[None]:
        """Go on with a first rebalance after its delay."""
        draft = Draft(now_ms)
        group = self._in_preparation(event.group_id)
        if group is not None:
            rebalance.end_initial_delay(draft, group, event, self._directory.config)
        return self._decided(draft, None)

    def expire_joins(self, event: JoinExpired, now_ms: int) -> CoordinatorResult[None]:
        """Begin the next generation with the members that have joined."""
        draft = Draft(now_ms)
        group = self._in_preparation(event.group_id)
        if group is not None:
            rebalance.complete(draft, group)
        return self._decided(draft, None)

    def expire_syncs(self, event: SyncExpired, now_ms: int) -> CoordinatorResult[None]:
        """Rebalance without the members that never synced."""
        draft = Draft(now_ms)
        group = self._groups.get(event.group_id)
        if isinstance(group, ClassicGroup):
            rebalance.expire_syncs(draft, group, event, self._directory.config)
        return draft.result(None)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Take up every group where its last record left it: Stable, or Empty."""
        draft = Draft(now_ms)
        max_size = self._directory.config.int("group.max.size")
        for group in self._groups.values():
            if not isinstance(group, ClassicGroup) or group.recorded is None:
                continue
            self._take_up(draft, group)
            size = len(group.soft.members)
            if size > max_size:
                text = f"it was loaded with {size} members and may have {max_size}"
                why = Why("group.max.size", text)
                rebalance.prepare(draft, group, self._directory.config, why)
        return draft.result(None)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Undo what a decision did in favour of records that were not appended.

        A group that was about to become another one, or nothing, is again what it recorded last.
        """
        draft = Draft(now_ms)
        undo, self._undo = self._undo, None
        if undo is not None and any(record is undo[0] for record in records):
            undo[1](draft, error)
            return draft.result(None)
        for record in records:
            if isinstance(record.key, GroupMetadataKey):
                self._begun.pop(record.key.group, None)
                group = self._groups.get(record.key.group)
                if isinstance(group, ClassicGroup):
                    self._return_to_record(draft, group, error)
        return draft.result(None)

    def _return_to_record(self, draft: Draft, group: ClassicGroup, error: KafkaError) -> None:
        for member in group.soft.members.values():
            rebalance.release(draft, member, error.code, member.member_id)
            sessions.end(draft, group.group_id, member.member_id)
        draft.cancel_timer(rebalance.join_key(group))
        draft.cancel_timer(rebalance.sync_key(group))
        self._take_up(draft, group)

    def _never_begun(self, begun: ClassicGroup) -> Undo:
        """Return what sends away who was to begin a group."""

        def undo(draft: Draft, error: KafkaError) -> None:
            self._begun.pop(begun.group_id, None)
            for member in begun.soft.members.values():
                rebalance.release(draft, member, error.code, member.member_id)
                sessions.end(draft, begun.group_id, member.member_id)
            begun.soft = Membership()

        return undo

    def _assign_nothing(self, group: ClassicGroup) -> Undo:
        """Return what lets a generation join again whose assignment could not be recorded."""

        def undo(draft: Draft, error: KafkaError) -> None:
            for member in group.soft.members.values():
                member.assignment = b""
                sessions.disarm(member)
                sessions.renew(draft, group.group_id, member, member.session_timeout_ms)
            text = f"its assignment could not be recorded ({error.code.name})"
            config = self._directory.config
            rebalance.prepare(draft, group, config, Why("append-failed", text))

        return undo

    def _decided(self, draft: Draft, response: R | Parked) -> CoordinatorResult[R]:
        """Return a decision, remembering how to undo it until the next one."""
        self._undo = draft.undo
        return draft.result(response)

    def _take_up(self, draft: Draft, group: ClassicGroup) -> None:
        recorded = group.recorded
        group.soft = Membership() if recorded is None else Membership.from_record(recorded)
        for member in group.soft.members.values():
            sessions.renew(draft, group.group_id, member, member.session_timeout_ms)

    # Replayers

    def replay_group_metadata(
        self, key: GroupMetadataKey, value: GroupMetadataValue | None
    ) -> None:
        """Make one GroupMetadata record true; a null value is a tombstone."""
        group_id = key.group
        found = self._groups.get(group_id)
        if value is None:
            if isinstance(found, ClassicGroup):
                del self._groups[group_id]
            return
        if not isinstance(found, ClassicGroup):
            found = self._begun.pop(group_id, None) or ClassicGroup(group_id)
            self._groups[group_id] = found
        found.recorded = with_shared_texts(value)

    # Finding

    def _in_preparation(self, group_id: GroupId) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and (
            group.soft.state is ClassicState.PREPARING_REBALANCE
        ):
            return group
        return None

    def _member_in_generation(
        self, request: SyncGroupRequest | HeartbeatRequest, action: str
    ) -> tuple[ClassicGroup, ClassicMember]:
        """Return the member a request names, KafkaError unless it is of this generation."""
        group = self._groups.get(request.group_id)
        member_id, generation_id = request.member_id, request.generation_id
        if not isinstance(group, ClassicGroup) or group.is_empty():
            raise unknown_member(Membership(), action, member_id)
        member = group.soft.member_of(member_id, request.group_instance_id, action)
        if generation_id != group.soft.generation_id:
            raise other_generation(group.soft, action, member_id, generation_id)
        return group, member
