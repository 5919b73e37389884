"""JoinGroup: how members come in, and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Parked
from kafkalite.groups.classic import sessions
from kafkalite.groups.classic.answers import join_refused, joined
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.rebalance import (
    maybe_complete,
    prepare,
    prepare_or_complete,
    release,
)
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.records import group_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.classic.draft import Draft
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


class Joining:
    """One JoinGroup request on its way into a group."""

    __slots__ = ("_caller", "_config", "_directory", "_draft", "_group", "_protocols", "_request")

    def __init__(
        self,
        draft: Draft,
        directory: GroupDirectory,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
    ) -> None:
        self._draft = draft
        self._directory = directory
        self._config = directory.config
        self._group = group
        self._request = request
        self._caller = caller
        self._protocols = [(offered.name, offered.metadata) for offered in request.protocols]

    def decide(self) -> JoinGroupResponse | Parked:
        """Let the member in, park it until its generation begins, or refuse it."""
        soft, request = self._group.soft, self._request
        if not soft.accepts(request.member_id, self._config.int("group.max.size")):
            soft.remove(request.member_id)
            return join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not soft.supports(request.protocol_type, [name for name, _ in self._protocols]):
            return join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if not request.member_id:
            return self._join_anew()
        if request.member_id in soft.pending_joins:
            if request.group_instance_id is not None:
                # Only dynamic members are given an id to come back with.
                return join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return self._add(request.member_id)
        return self._rejoin()

    def _join_anew(self) -> JoinGroupResponse | Parked:
        soft, request = self._group.soft, self._request
        instance_id = request.group_instance_id
        prefix = self._caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._directory.entropy.uuid4_text()}"
        if instance_id is not None:
            old_id = soft.static_members.get(instance_id)
            return self._add(member_id) if old_id is None else self._replace(old_id, member_id)
        if self._caller.requires_known_member_id:
            soft.pending_joins.add(member_id)
            sessions.renew_pending(
                self._draft, self._group.group_id, member_id, request.session_timeout_ms
            )
            return join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(member_id)

    def _add(self, member_id: MemberId) -> Parked:
        group, request = self._group, self._request
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=self._protocols,
        )
        member.is_new = True
        if (
            group.soft.state is ClassicState.PREPARING_REBALANCE
            and group.soft.previous_state is ClassicState.EMPTY
        ):
            group.soft.new_member_added = True
        group.soft.add(member)
        parked = self._park(member)
        sessions.renew(self._draft, group.group_id, member, sessions.NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_or_complete(self._draft, group, self._config)
        return parked

    def _rejoin(self) -> JoinGroupResponse | Parked:
        soft, request = self._group.soft, self._request
        try:
            member = soft.member_of(request.member_id, request.group_instance_id)
        except KafkaError as refusal:
            return join_refused(refusal.code, request.member_id)
        is_leader = soft.is_leader(member.member_id)
        is_same = member.protocols == self._protocols
        if soft.state is ClassicState.COMPLETING_REBALANCE and is_same:
            # It may not have received the answer to its last join, so it gets it once more.
            return joined(soft, member.member_id, with_members=is_leader)
        if soft.state is ClassicState.STABLE and is_same and not is_leader:
            return joined(soft, member.member_id, with_members=False)
        # A leader that joins again asks for a rebalance, for instance since topics have changed.
        self._update(member)
        parked = self._park(member)
        prepare_or_complete(self._draft, self._group, self._config)
        return parked

    def _replace(self, old_id: MemberId, new_id: MemberId) -> JoinGroupResponse | Parked:
        """Let a static member that was restarted take its own place, under a new id (KIP-345)."""
        draft, group = self._draft, self._group
        soft = group.soft
        leader_before = soft.leader_id
        release(draft, soft.members[old_id], ErrorCode.FENCED_INSTANCE_ID, old_id)
        sessions.end(draft, group.group_id, old_id)
        member = soft.replace_static(old_id, new_id)
        self._update(member)
        sessions.renew(draft, group.group_id, member, member.session_timeout_ms)
        if soft.state is ClassicState.STABLE and soft.selected_protocol() == soft.protocol_name:
            assignments = {known.member_id: known.assignment for known in soft.members.values()}
            value = soft.to_record(assignments)
            draft.records.append(group_metadata_record(group.group_id, value))
            if not self._caller.supports_skipping_assignment:
                # It cannot be told to skip the assignment, so it must not think that it leads.
                return joined(soft, new_id, with_members=False, leader=leader_before)
            is_leader = soft.is_leader(new_id)
            return joined(soft, new_id, with_members=is_leader, skip_assignment=is_leader)
        parked = self._park(member)
        if soft.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(draft, group)
        else:
            prepare(draft, group, self._config)
        return parked

    def _update(self, member: ClassicMember) -> None:
        self._group.soft.update(member, self._protocols)
        member.rebalance_timeout_ms = self._request.rebalance_timeout_ms
        member.session_timeout_ms = self._request.session_timeout_ms

    def _park(self, member: ClassicMember) -> Parked:
        if member.awaiting_join is not None:
            # Its client gave up on an earlier connection; nobody may be left waiting there.
            refused = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self._draft.reply(member.awaiting_join, refused)
        member.awaiting_join = self._directory.next_ticket()
        return Parked(member.awaiting_join)
