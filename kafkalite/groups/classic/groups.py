"""ClassicGroups: deciders, replayers and timers of classic groups."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, ParkedRequest
from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.decision import DecisionBuilder
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.join import JoinDecision
from kafkalite.groups.classic.membership import ClassicState, Membership
from kafkalite.groups.classic.rebalance import (
    InitialDelayEnded,
    JoinExpired,
    RebalanceReason,
    SyncExpired,
)
from kafkalite.groups.classic.refusals import (
    check_protocol,
    illegal_generation_error,
    unknown_instance_error,
    unknown_member_error,
)
from kafkalite.groups.classic.responses import (
    join_error_response,
    sync_error_response,
    sync_response,
)
from kafkalite.groups.classic.sessions import SessionExpired
from kafkalite.groups.offsets_topic_records import group_metadata_record, intern_strings
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupResponse
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.groups.classic.decision import Undo
    from kafkalite.groups.classic.member import Caller, ClassicMember
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol._generated.messages.join_group import (
        JoinGroupRequest,
        JoinGroupResponse,
    )
    from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
    from kafkalite.protocol._generated.messages.sync_group import (
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from kafkalite.protocol._generated.records.group_metadata import GroupMetadataValue

R = TypeVar("R")

_MAX_NAMED = 10
"""The maximum number of members that an event names."""

# Bound once: enum attribute access is slow in the heartbeat path.
_NONE = ErrorCode.NONE
_REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
_PREPARING = ClassicState.PREPARING_REBALANCE


class ClassicGroups:
    """The classic groups of a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._groups = directory.groups
        self._unreplayed_groups = directory.unreplayed_groups
        self._undo: tuple[Record, Undo] | None = None
        """Soft state: how to undo the last decision if its append fails."""
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
        """Handle a JoinGroup to a classic group, or to an empty group that it replaces."""
        decision = DecisionBuilder(now_ms)
        existing_group = self._groups.get(request.group_id)
        if isinstance(existing_group, ClassicGroup):
            joining = JoinDecision(decision, self._directory, existing_group, request, caller)
            return self._result(decision, joining.decide())
        if request.member_id:
            error = unknown_member_error(Membership(), "join", request.member_id)
            decision.add_refusal(request.group_id, error)
            return decision.result(join_error_response(error.code, request.member_id))
        if existing_group is not None:
            decision.records.extend(existing_group.tombstones())
        created = self._unreplayed_groups[request.group_id] = ClassicGroup(request.group_id)
        answer = JoinDecision(decision, self._directory, created, request, caller).decide()
        # A new member is soft state only, so this record creates the group.
        empty = Membership()
        empty.state_timestamp_ms = now_ms
        record = group_metadata_record(request.group_id, empty.to_record({}))
        decision.record(record, self._undo_creation(created))
        return self._result(decision, answer)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> CoordinatorResult[SyncGroupResponse]:
        """Handle a SyncGroup; the leader's request has the assignments of all members."""
        decision = DecisionBuilder(now_ms)
        try:
            group, member = self._member_in_generation(request, "sync")
            soft = group.soft
            check_protocol(request.member_id, request.protocol_type, soft.protocol_type)
            check_protocol(request.member_id, request.protocol_name, soft.protocol_name)
        except KafkaError as refusal:
            decision.add_refusal(request.group_id, refusal)
            return decision.result(sync_error_response(refusal.code))
        if soft.state is ClassicState.PREPARING_REBALANCE:
            return decision.result(sync_error_response(ErrorCode.REBALANCE_IN_PROGRESS))
        rebalance.record_sync(decision, group, member)
        if soft.state is ClassicState.STABLE:
            return decision.result(sync_response(soft, member))
        if member.awaiting_sync is not None:
            # The client resent the request on a new connection; the earlier one must be answered.
            decision.reply(
                member.awaiting_sync, sync_error_response(ErrorCode.REBALANCE_IN_PROGRESS)
            )
        member.awaiting_sync = self._directory.next_ticket()
        parked = ParkedRequest(member.awaiting_sync)
        if soft.is_leader(member.member_id):
            assigned = {each.member_id: each.assignment for each in request.assignments}
            self._complete_sync(decision, group, assigned)
        return self._result(decision, parked)

    def _complete_sync(
        self, decision: DecisionBuilder, group: ClassicGroup, assigned: Mapping[str, bytes]
    ) -> None:
        """Record the leader's assignment, and answer all waiting members."""
        soft = group.soft
        value = soft.to_record(assigned)
        decision.record(group_metadata_record(group.group_id, value), self._undo_assignment(group))
        soft.move_to(ClassicState.STABLE, decision.now_ms)
        text = f"generation {soft.generation_id} of group {group.group_id} has its assignment"
        facts = {"generation": soft.generation_id, "leader": soft.leader_id}
        decision.add_event(
            group.group_id, "assigned", text, **facts, assigned_members=len(assigned)
        )
        for member in soft.members.values():
            member.assignment = assigned.get(member.member_id, b"")
            if member.awaiting_sync is not None:
                decision.reply(member.awaiting_sync, sync_response(soft, member))
                member.awaiting_sync = None
                sessions.extend(decision, group.group_id, member, member.session_timeout_ms)

    def steady_heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode | None:
        """Extend the session and return the error code; None if `heartbeat` must decide.

        This is the fast path: it writes no record and sets no timer.
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
        if deadline_ms < member.timer_deadline_ms:
            return None
        member.deadline_ms = deadline_ms
        return _REBALANCE_IN_PROGRESS if soft.state is _PREPARING else _NONE

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult[ErrorCode]:
        """Handle a Heartbeat that may be refused or needs a new timer."""
        decision = DecisionBuilder(now_ms)
        try:
            group, member = self._member_in_generation(request, "heartbeat")
        except KafkaError as refusal:
            decision.add_refusal(request.group_id, refusal)
            return decision.result(refusal.code)
        sessions.extend(decision, group.group_id, member, member.session_timeout_ms)
        if group.soft.state is ClassicState.PREPARING_REBALANCE:
            return decision.result(ErrorCode.REBALANCE_IN_PROGRESS)
        return decision.result(ErrorCode.NONE)

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Handle a LeaveGroup: remove each listed member, then rebalance once."""
        decision = DecisionBuilder(now_ms)
        existing_group = self._groups.get(request.group_id)
        group = existing_group if isinstance(existing_group, ClassicGroup) else None
        answers = []
        removed_ids: list[MemberId] = []
        for leaving in request.members:
            code = ErrorCode.NONE
            try:
                removed_ids.append(
                    _remove_leaving_member(decision, request.group_id, group, leaving)
                )
            except KafkaError as refusal:
                decision.add_refusal(request.group_id, refusal)
                code = refusal.code
            answers.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=code,
                )
            )
        if group is not None and removed_ids:
            text = f"{', '.join(removed_ids[:_MAX_NAMED])} left"
            self._rebalance_without(
                decision, group, RebalanceReason("member-left", text, removed_ids)
            )
        answer = LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
        return self._result(decision, answer)

    def remove_members(
        self, group: ClassicGroup, limit: int, kind: str, reason: str, now_ms: int
    ) -> CoordinatorResult[bool]:
        """Remove at most `limit` members and pending member ids; return whether others remain.

        When the last one is removed, the group is Empty at once; there is no rebalance before.
        Waiting requests get UNKNOWN_MEMBER_ID. `kind` and `reason` are those of the events.
        """
        decision = DecisionBuilder(now_ms)
        soft = group.soft
        removed_ids = list(islice(chain(soft.pending_joins, soft.members), limit))
        _remove_members(decision, group, removed_ids, kind, reason)
        if soft.pending_joins or soft.members:
            return self._result(decision, response=True)
        if soft.state is ClassicState.PREPARING_REBALANCE:
            rebalance.complete_join(decision, group)
        elif soft.state is not ClassicState.EMPTY:
            why = RebalanceReason(kind, reason, removed_ids)
            rebalance.prepare(decision, group, self._directory.config, why)
        return self._result(decision, response=False)

    def expel_members(
        self,
        group: ClassicGroup,
        member_ids: Collection[MemberId],
        kind: str,
        reason: str,
        now_ms: int,
    ) -> CoordinatorResult[Sequence[MemberId]]:
        """Remove members and pending member ids that the group has; the response has their ids.

        The others rebalance, as after the end of a session.
        """
        decision = DecisionBuilder(now_ms)
        soft = group.soft
        known = [each for each in member_ids if each in soft.members or each in soft.pending_joins]
        _remove_members(decision, group, known, kind, reason)
        if known and soft.state is ClassicState.PREPARING_REBALANCE:
            rebalance.complete_join_if_all_joined(decision, group)
        elif known:
            self._rebalance_without(decision, group, RebalanceReason(kind, reason, known))
        return self._result(decision, known)

    def begin_rebalance(
        self, group: ClassicGroup, reason: RebalanceReason, now_ms: int, *, skips_generation: bool
    ) -> CoordinatorResult[bool]:
        """Let the members of a group join again; the response is whether it has members.

        With `skips_generation`, the generation is a later one already, as if all members had joined
        it, and another rebalance had begun before they learned that.
        """
        decision = DecisionBuilder(now_ms)
        soft = group.soft
        if not soft.members:
            return decision.result(response=False)
        generation_id = soft.generation_id
        if soft.state is not ClassicState.PREPARING_REBALANCE:
            rebalance.prepare(decision, group, self._directory.config, reason)
        if skips_generation and soft.generation_id == generation_id:
            soft.skip_generation()
            text = f"generation {soft.generation_id} of group {group.group_id} ends before its "
            facts = {"generation": soft.generation_id, "rule": reason.rule}
            decision.add_event(
                group.group_id, "generation", f"{text}members know it: {reason.text}", **facts
            )
        return self._result(decision, response=True)

    def _rebalance_without(
        self, decision: DecisionBuilder, group: ClassicGroup, reason: RebalanceReason
    ) -> None:
        """Rebalance the remaining members."""
        if group.soft.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            rebalance.prepare(decision, group, self._directory.config, reason)
        else:
            rebalance.complete_join_unless_delayed(decision, group)

    # Timers and loading

    def expire_session(self, event: SessionExpired, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member whose session expired, or a pending member id that was not used."""
        decision = DecisionBuilder(now_ms)
        group = self._groups.get(event.group_id)
        if not isinstance(group, ClassicGroup):
            return decision.result(None)
        soft = group.soft
        member = soft.members.get(event.member_id)
        if event.member_id in soft.pending_joins:
            soft.remove(event.member_id)
            text = f"no client joined with member id {event.member_id} within its session timeout"
            facts = {"rule": "pending-join", "member_id": event.member_id}
            decision.add_event(group.group_id, "expired", text, **facts)
            rebalance.complete_join_if_all_joined(decision, group)
        elif member is not None:
            sessions.record_timer_expired(member)
            if now_ms < member.deadline_ms:
                sessions.set_timer(decision, group.group_id, member)
            elif not member.has_satisfied_heartbeat():
                self._end_session(decision, group, member)
        return self._result(decision, None)

    def _end_session(
        self, decision: DecisionBuilder, group: ClassicGroup, member: ClassicMember
    ) -> None:
        rule, timeout_ms = "session-timeout", member.session_timeout_ms
        if member.is_new:
            rule, timeout_ms = "new-member-join-timeout", sessions.NEW_MEMBER_JOIN_TIMEOUT_MS
        text = f"member {member.member_id} sent no heartbeat for {timeout_ms} ms ({rule})"
        facts = {"rule": rule, "member_id": member.member_id, "timeout_ms": timeout_ms}
        decision.add_event(
            group.group_id, "expired", f"{text}, {member.client}", **facts, **member.client_facts()
        )
        rebalance.remove_member(decision, group, member)
        if group.soft.state is ClassicState.PREPARING_REBALANCE:
            rebalance.complete_join_if_all_joined(decision, group)
        else:
            self._rebalance_without(
                decision, group, RebalanceReason(rule, text, [member.member_id])
            )

    def end_initial_delay(self, event: InitialDelayEnded, now_ms: int) -> CoordinatorResult[None]:
        """Continue a first rebalance after its initial delay."""
        decision = DecisionBuilder(now_ms)
        group = self._group_preparing_rebalance(event.group_id)
        if group is not None:
            rebalance.end_initial_delay(decision, group, event, self._directory.config)
        return self._result(decision, None)

    def expire_joins(self, event: JoinExpired, now_ms: int) -> CoordinatorResult[None]:
        """Start the next generation with the members that have joined."""
        decision = DecisionBuilder(now_ms)
        group = self._group_preparing_rebalance(event.group_id)
        if group is not None:
            rebalance.complete_join(decision, group)
        return self._result(decision, None)

    def expire_syncs(self, event: SyncExpired, now_ms: int) -> CoordinatorResult[None]:
        """Remove the members without a SyncGroup, and rebalance."""
        decision = DecisionBuilder(now_ms)
        group = self._groups.get(event.group_id)
        if isinstance(group, ClassicGroup):
            rebalance.expire_syncs(decision, group, event, self._directory.config)
        return decision.result(None)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Restore every group from its last record, as Stable or Empty."""
        decision = DecisionBuilder(now_ms)
        max_size = self._directory.config.int("group.max.size")
        for group in self._groups.values():
            if not isinstance(group, ClassicGroup) or group.recorded is None:
                continue
            self._restore(decision, group)
            size = len(group.soft.members)
            if size > max_size:
                text = f"it was loaded with {size} members, the maximum is {max_size}"
                reason = RebalanceReason("group.max.size", text)
                rebalance.prepare(decision, group, self._directory.config, reason)
        return decision.result(None)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Undo the soft-state changes of a decision whose append failed.

        A group that was to be replaced or deleted returns to the state of its last record.
        """
        decision = DecisionBuilder(now_ms)
        undo, self._undo = self._undo, None
        if undo is not None and any(record is undo[0] for record in records):
            undo[1](decision, error)
            return decision.result(None)
        for record in records:
            if isinstance(record.key, GroupMetadataKey):
                self._unreplayed_groups.pop(record.key.group, None)
                group = self._groups.get(record.key.group)
                if isinstance(group, ClassicGroup):
                    self._return_to_record(decision, group, error)
        return decision.result(None)

    def _return_to_record(
        self, decision: DecisionBuilder, group: ClassicGroup, error: KafkaError
    ) -> None:
        for member in group.soft.members.values():
            rebalance.refuse_waiting_requests(decision, member, error.code, member.member_id)
            sessions.cancel_timer(decision, group.group_id, member.member_id)
        decision.cancel_timer(rebalance.join_key(group))
        decision.cancel_timer(rebalance.sync_key(group))
        self._restore(decision, group)

    def _undo_creation(self, created: ClassicGroup) -> Undo:
        """Return the function that removes the first member of a group whose creation failed."""

        def undo(decision: DecisionBuilder, error: KafkaError) -> None:
            self._unreplayed_groups.pop(created.group_id, None)
            for member in created.soft.members.values():
                rebalance.refuse_waiting_requests(decision, member, error.code, member.member_id)
                sessions.cancel_timer(decision, created.group_id, member.member_id)
            created.soft = Membership()

        return undo

    def _undo_assignment(self, group: ClassicGroup) -> Undo:
        """Return the function that rebalances a group whose assignment was not recorded."""

        def undo(decision: DecisionBuilder, error: KafkaError) -> None:
            for member in group.soft.members.values():
                member.assignment = b""
                sessions.record_timer_expired(member)
                sessions.extend(decision, group.group_id, member, member.session_timeout_ms)
            text = f"its assignment could not be recorded ({error.code.name})"
            config = self._directory.config
            rebalance.prepare(decision, group, config, RebalanceReason("append-failed", text))

        return undo

    def _result(
        self, decision: DecisionBuilder, response: R | ParkedRequest
    ) -> CoordinatorResult[R]:
        """Return the result, and remember how to undo it until the next decision."""
        self._undo = decision.undo
        return decision.result(response)

    def _restore(self, decision: DecisionBuilder, group: ClassicGroup) -> None:
        recorded = group.recorded
        group.soft = Membership() if recorded is None else Membership.from_record(recorded)
        for member in group.soft.members.values():
            sessions.extend(decision, group.group_id, member, member.session_timeout_ms)

    # Replayers

    def replay_group_metadata(
        self, key: GroupMetadataKey, value: GroupMetadataValue | None
    ) -> None:
        """Apply a GroupMetadata record; a null value is a tombstone."""
        group_id = key.group
        existing_group = self._groups.get(group_id)
        if value is None:
            if isinstance(existing_group, ClassicGroup):
                del self._groups[group_id]
            return
        if not isinstance(existing_group, ClassicGroup):
            existing_group = self._unreplayed_groups.pop(group_id, None) or ClassicGroup(group_id)
            self._groups[group_id] = existing_group
        existing_group.recorded = intern_strings(value)

    # Lookups

    def _group_preparing_rebalance(self, group_id: GroupId) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and (
            group.soft.state is ClassicState.PREPARING_REBALANCE
        ):
            return group
        return None

    def _member_in_generation(
        self, request: SyncGroupRequest | HeartbeatRequest, action: str
    ) -> tuple[ClassicGroup, ClassicMember]:
        """Return the member of a request; raises KafkaError if id or generation is wrong."""
        group = self._groups.get(request.group_id)
        member_id, generation_id = request.member_id, request.generation_id
        if not isinstance(group, ClassicGroup) or group.is_empty():
            raise unknown_member_error(Membership(), action, member_id)
        member = group.soft.find_member(member_id, request.group_instance_id, action)
        if generation_id != group.soft.generation_id:
            raise illegal_generation_error(group.soft, action, member_id, generation_id)
        return group, member


_MAX_QUOTED_CHARACTERS = 200
"""The maximum length of a client's reason in an event."""


def _remove_members(
    decision: DecisionBuilder,
    group: ClassicGroup,
    member_ids: Collection[MemberId],
    kind: str,
    reason: str,
) -> None:
    """Remove members and pending member ids, and answer their waiting requests.

    The caller rebalances. `kind` and `reason` are those of the events.
    """
    soft = group.soft
    for member_id in member_ids:
        member = soft.members.get(member_id)
        if member is None:
            soft.remove(member_id)
            sessions.cancel_timer(decision, group.group_id, member_id)
            continue
        rebalance.remove_member(decision, group, member)
        text = f"member {member_id} removed: {reason}, {member.client}"
        facts = {"member_id": member_id, **member.client_facts()}
        decision.add_event(group.group_id, kind, text, **facts)


def _remove_leaving_member(
    decision: DecisionBuilder,
    group_id: GroupId,
    group: ClassicGroup | None,
    leaving: LeaveGroupRequest.MemberIdentity,
) -> MemberId:
    """Remove one member and return its id; raises KafkaError for an unknown member.

    The caller rebalances, once for all members of the request.
    """
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if group is None:
        raise unknown_member_error(Membership(), "leave", member_id)
    soft = group.soft
    if not member_id:
        # Administrators identify a static member by its instance id only.
        if instance_id is None or instance_id not in soft.static_members:
            raise unknown_instance_error("leave", member_id, instance_id or "(none)")
        member_id = soft.static_members[instance_id]
    client, client_facts = "", {}
    if member_id in soft.pending_joins:
        soft.remove(member_id)
        sessions.cancel_timer(decision, group_id, member_id)
    else:
        member = soft.find_member(member_id, instance_id, "leave")
        client, client_facts = f", {member.client}", member.client_facts()
        rebalance.remove_member(decision, group, member)
    reason = f" ({leaving.reason[:_MAX_QUOTED_CHARACTERS]})" if leaving.reason else ""
    decision.add_event(
        group_id,
        "left",
        f"member {member_id} left group {group_id}{reason}{client}",
        member_id=member_id,
        group_instance_id=instance_id,
        **client_facts,
    )
    return member_id
