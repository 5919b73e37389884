"""ClassicGroups: what a shard decides on requests of the classic protocol, and replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Parked
from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.answers import join_refused, sync_refused, synced
from kafkalite.groups.classic.draft import Draft
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.join import Joining
from kafkalite.groups.classic.membership import Membership
from kafkalite.groups.classic.rebalance import InitialDelayEnded, JoinExpired, SyncExpired
from kafkalite.groups.classic.sessions import SessionExpired
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.records import group_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol.records.group_metadata import GroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId
    from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest
    from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from kafkalite.protocol.records.group_metadata import GroupMetadataValue

# The hottest path looks these up once, for a member of an enum is not found for nothing.
_NONE = ErrorCode.NONE
_REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
_PREPARING = ClassicState.PREPARING_REBALANCE


class ClassicGroups:
    """The classic groups of a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._groups = directory.groups
        self._begun: dict[GroupId, ClassicGroup] = {}
        """Soft: groups that a decision began and whose first record is about to be replayed."""
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
            return draft.result(joining.decide())
        if request.member_id:
            return draft.result(join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        if found is not None:
            draft.records.extend(found.tombstones())
        begun = self._begun[request.group_id] = ClassicGroup(request.group_id)
        answer = Joining(draft, self._directory, begun, request, caller).decide()
        # Membership alone is no record, so the group says that it is there.
        empty = Membership()
        empty.state_timestamp_ms = now_ms
        draft.records.append(group_metadata_record(request.group_id, empty.to_record({})))
        return draft.result(answer)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> CoordinatorResult[SyncGroupResponse]:
        """Decide a SyncGroup: the leader's brings the assignments that all others wait for."""
        draft = Draft(now_ms)
        try:
            group, member = self._member_in_generation(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
            )
            _check_protocol(request.protocol_type, group.soft.protocol_type)
            _check_protocol(request.protocol_name, group.soft.protocol_name)
        except KafkaError as refusal:
            return draft.result(sync_refused(refusal.code))
        soft = group.soft
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
        return draft.result(parked)

    def _settle(self, draft: Draft, group: ClassicGroup, assigned: Mapping[str, bytes]) -> None:
        """Record what the leader assigned, and answer everybody who waits for it."""
        soft = group.soft
        value = soft.to_record(assigned)
        draft.records.append(group_metadata_record(group.group_id, value))
        soft.move_to(ClassicState.STABLE, draft.now_ms)
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
            return ErrorCode.UNKNOWN_MEMBER_ID if group is None else None
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
            group, member = self._member_in_generation(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
            )
        except KafkaError as refusal:
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
        group = self._groups.get(request.group_id)
        answers = []
        for leaving in request.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            if isinstance(group, ClassicGroup):
                code = self._leave_one(draft, group, leaving.member_id, leaving.group_instance_id)
            answers.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=code,
                )
            )
        if isinstance(group, ClassicGroup) and any(
            answer.error_code == ErrorCode.NONE for answer in answers
        ):
            self._rebalance_without(draft, group)
        return draft.result(LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers))

    def _leave_one(
        self, draft: Draft, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        soft = group.soft
        if not member_id and instance_id in soft.static_members:
            # An administrator names a static member by its instance alone.
            assert instance_id is not None, "it was found"
            member_id = soft.static_members[instance_id]
        if member_id in soft.pending_joins:
            soft.remove(member_id)
            sessions.end(draft, group.group_id, member_id)
            return ErrorCode.NONE
        try:
            member = soft.member_of(member_id, instance_id)
        except KafkaError as refusal:
            return ErrorCode.UNKNOWN_MEMBER_ID if not member_id else refusal.code
        rebalance.strike_off(draft, group, member)
        return ErrorCode.NONE

    def _rebalance_without(self, draft: Draft, group: ClassicGroup) -> None:
        """Let those who stay rebalance after somebody has gone."""
        if group.soft.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            rebalance.prepare(draft, group, self._directory.config)
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
            rebalance.maybe_complete(draft, group)
        elif member is not None:
            sessions.disarm(member)
            if now_ms < member.deadline_ms:
                sessions.arm(draft, group.group_id, member)
            elif not member.has_satisfied_heartbeat():
                rebalance.strike_off(draft, group, member)
                self._rebalance_without(draft, group)
        return draft.result(None)

    def end_initial_delay(self, event: InitialDelayEnded, now_ms: int) -> CoordinatorResult[None]:
        """Go on with a first rebalance after its delay."""
        draft = Draft(now_ms)
        group = self._in_preparation(event.group_id)
        if group is not None:
            rebalance.end_initial_delay(draft, group, event, self._directory.config)
        return draft.result(None)

    def expire_joins(self, event: JoinExpired, now_ms: int) -> CoordinatorResult[None]:
        """Begin the next generation with the members that have joined."""
        draft = Draft(now_ms)
        group = self._in_preparation(event.group_id)
        if group is not None:
            rebalance.complete(draft, group)
        return draft.result(None)

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
            if len(group.soft.members) > max_size:
                rebalance.prepare(draft, group, self._directory.config)
        return draft.result(None)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Return groups to their last record, as a move of the coordinator would."""
        draft = Draft(now_ms)
        for record in records:
            if not isinstance(record.key, GroupMetadataKey):
                continue
            begun = self._begun.pop(record.key.group, None)
            group = begun or self._groups.get(record.key.group)
            if isinstance(group, ClassicGroup):
                for member in group.soft.members.values():
                    rebalance.release(draft, member, error.code, member.member_id)
                    sessions.end(draft, group.group_id, member.member_id)
                draft.cancel_timer(rebalance.join_key(group))
                draft.cancel_timer(rebalance.sync_key(group))
                self._take_up(draft, group)
        return draft.result(None)

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
        found.recorded = value

    # Finding

    def _in_preparation(self, group_id: GroupId) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and (
            group.soft.state is ClassicState.PREPARING_REBALANCE
        ):
            return group
        return None

    def _member_in_generation(
        self, group_id: GroupId, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ClassicGroup, ClassicMember]:
        """Return the member a request names, KafkaError unless it is of this generation."""
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty():
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.soft.member_of(member_id, instance_id)
        if generation_id != group.soft.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return group, member


def _check_protocol(claimed: str | None, known: str | None) -> None:
    if claimed is not None and known is not None and claimed != known:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
