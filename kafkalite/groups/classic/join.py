"""JoinDecision: JoinGroup requests of new, rejoining and returning static members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import ParkedRequest
from kafkalite.groups.classic import sessions
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.membership import ClassicState
from kafkalite.groups.classic.rebalance import (
    RebalanceReason,
    complete_join_unless_delayed,
    prepare,
    prepare_or_complete_join,
    refuse_waiting_requests,
)
from kafkalite.groups.classic.refusals import classic_group_error
from kafkalite.groups.classic.responses import join_error_response, join_response
from kafkalite.groups.offsets_topic_records import group_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.groups.classic.decision import DecisionBuilder, Undo
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.classic.member import Caller
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol._generated.messages.join_group import (
        JoinGroupRequest,
        JoinGroupResponse,
    )

_MAX_NAMED = 10
"""The maximum number of protocols that an event names."""

_MAX_QUOTED_CHARACTERS = 200
"""The maximum length of a client's reason in an event."""


class JoinDecision:
    """One JoinGroup request to a group."""

    __slots__ = (
        "_caller",
        "_config",
        "_decision",
        "_directory",
        "_group",
        "_protocols",
        "_request",
    )

    def __init__(
        self,
        decision: DecisionBuilder,
        directory: GroupDirectory,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
    ) -> None:
        self._decision = decision
        self._directory = directory
        self._config = directory.config
        self._group = group
        self._request = request
        self._caller = caller
        self._protocols = [(offered.name, offered.metadata) for offered in request.protocols]

    def decide(self) -> JoinGroupResponse | ParkedRequest:
        """Return the response, or park the request until its generation starts."""
        soft, request = self._group.soft, self._request
        max_size = self._config.int("group.max.size")
        if not soft.has_room_for(request.member_id, max_size):
            soft.remove(request.member_id)
            reason = f"the group has {len(soft.members)} members, the maximum is {max_size}"
            facts = {"rule": "group.max.size", "members": len(soft.members), "max_size": max_size}
            return self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, reason, facts, member_id="")
        if not soft.supports_any_of(request.protocol_type, [name for name, _ in self._protocols]):
            return self._refuse_protocols()
        if not request.member_id:
            return self._join_new_member()
        if request.member_id in soft.pending_joins:
            if request.group_instance_id is not None:
                reason = "its member id was issued to a member without an instance id"
                facts = {"rule": "group-instance-id"}
                return self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, reason, facts, member_id="")
            return self._add(request.member_id)
        return self._rejoin()

    def _refuse(
        self, code: ErrorCode, reason: str, facts: Mapping[str, object], *, member_id: MemberId
    ) -> JoinGroupResponse:
        error = classic_group_error(code, "join", self._request.member_id, reason, facts)
        self._decision.add_refusal(self._group.group_id, error)
        return join_error_response(code, member_id)

    def _refuse_protocols(self) -> JoinGroupResponse:
        soft, request = self._group.soft, self._request
        offered = [name for name, _ in self._protocols]
        reason = (
            f"its protocol type is {request.protocol_type!r} with protocols "
            f"{', '.join(offered[:_MAX_NAMED]) or '(none)'}; the group is {soft.state.value} and "
            f"has protocol type {soft.protocol_type!r}"
        )
        facts = {
            "rule": "protocols",
            "protocol_type": request.protocol_type,
            "protocols": offered[:_MAX_NAMED],
            "group_protocol_type": soft.protocol_type,
        }
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return self._refuse(code, reason, facts, member_id=request.member_id)

    def _join_new_member(self) -> JoinGroupResponse | ParkedRequest:
        soft, request = self._group.soft, self._request
        instance_id = request.group_instance_id
        prefix = self._caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._directory.entropy.uuid4_text()}"
        if instance_id is not None:
            old_id = soft.static_members.get(instance_id)
            return self._add(member_id) if old_id is None else self._replace(old_id, member_id)
        if self._caller.requires_known_member_id:
            soft.pending_joins.add(member_id)
            sessions.set_pending_join_timer(
                self._decision, self._group.group_id, member_id, request.session_timeout_ms
            )
            return join_error_response(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(member_id)

    def _add(self, member_id: MemberId) -> ParkedRequest:
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
        sessions.extend(self._decision, group.group_id, member, sessions.NEW_MEMBER_JOIN_TIMEOUT_MS)
        instance_text = (
            "" if member.group_instance_id is None else f" of {member.group_instance_id}"
        )
        self._decision.add_event(
            group.group_id,
            "joined",
            f"member {member_id}{instance_text} joined group {group.group_id}{self._reason()}",
            member_id=member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
        )
        reason = RebalanceReason(
            "new-member", f"{member_id}{instance_text} joined{self._reason()}", [member_id]
        )
        prepare_or_complete_join(self._decision, group, self._config, reason)
        return parked

    def _reason(self) -> str:
        """Return the client's reason (KIP-800) in parentheses, or ""."""
        reason = self._request.reason
        return f" ({reason[:_MAX_QUOTED_CHARACTERS]})" if reason else ""

    def _rejoin(self) -> JoinGroupResponse | ParkedRequest:
        soft, request = self._group.soft, self._request
        try:
            member = soft.find_member(request.member_id, request.group_instance_id, "join")
        except KafkaError as refusal:
            self._decision.add_refusal(self._group.group_id, refusal)
            return join_error_response(refusal.code, request.member_id)
        is_leader = soft.is_leader(member.member_id)
        has_same_protocols = member.protocols == self._protocols
        if soft.state is ClassicState.COMPLETING_REBALANCE and has_same_protocols:
            # Perhaps the member did not receive the response to its last join: repeat the response.
            return join_response(soft, member.member_id, with_members=is_leader)
        if soft.state is ClassicState.STABLE and has_same_protocols and not is_leader:
            return join_response(soft, member.member_id, with_members=False)
        # A leader that rejoins requests a rebalance, for example because topics have changed.
        member_id = member.member_id
        reason = RebalanceReason(
            "leader-rejoined", f"its leader {member_id} rejoined{self._reason()}", [member_id]
        )
        if not has_same_protocols:
            text = f"{member_id} changed its protocols or subscription{self._reason()}"
            reason = RebalanceReason("member-changed", text, [member_id])
        self._update(member)
        parked = self._park(member)
        prepare_or_complete_join(self._decision, self._group, self._config, reason)
        return parked

    def _replace(self, old_id: MemberId, new_id: MemberId) -> JoinGroupResponse | ParkedRequest:
        """Replace a static member by its restarted process with a new member id (KIP-345)."""
        decision, group = self._decision, self._group
        soft = group.soft
        leader_before = soft.leader_id
        old = soft.members[old_id]
        values_before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        refuse_waiting_requests(decision, old, ErrorCode.FENCED_INSTANCE_ID, old_id)
        sessions.cancel_timer(decision, group.group_id, old_id)
        member = soft.replace_static(old_id, new_id)
        self._update(member)
        sessions.extend(decision, group.group_id, member, member.session_timeout_ms)
        instance_id = member.group_instance_id
        decision.add_event(
            group.group_id,
            "joined",
            f"instance {instance_id} returned as {new_id}, replacing {old_id}{self._reason()}",
            member_id=new_id,
            group_instance_id=instance_id,
            replaced=old_id,
        )
        if soft.state is ClassicState.STABLE and soft.selected_protocol() == soft.protocol_name:
            assignments = {known.member_id: known.assignment for known in soft.members.values()}
            value = soft.to_record(assignments)
            record = group_metadata_record(group.group_id, value)
            decision.record(record, self._undo_replacement(new_id, old_id, *values_before))
            if not self._caller.supports_skipping_assignment:
                # A client of this version cannot skip the assignment, so it must not be the leader.
                return join_response(soft, new_id, with_members=False, leader=leader_before)
            is_leader = soft.is_leader(new_id)
            return join_response(soft, new_id, with_members=is_leader, skip_assignment=is_leader)
        parked = self._park(member)
        if soft.state is ClassicState.PREPARING_REBALANCE:
            complete_join_unless_delayed(decision, group)
        else:
            text = f"instance {instance_id} returned as {new_id} during the rebalance"
            if soft.state is ClassicState.STABLE:
                text = f"instance {instance_id} returned as {new_id} with other protocols"
            prepare(
                decision,
                group,
                self._config,
                RebalanceReason("static-member-changed", text, [new_id]),
            )
        return parked

    def _undo_replacement(
        self,
        new_id: MemberId,
        old_id: MemberId,
        protocols: Sequence[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> Undo:
        """Return the function that restores the static member's recorded member id."""
        group = self._group

        def undo(decision: DecisionBuilder, error: KafkaError) -> None:
            del error  # it is sent as the response
            member = group.soft.replace_static(new_id, old_id)
            group.soft.update(member, protocols)
            member.rebalance_timeout_ms = rebalance_timeout_ms
            member.session_timeout_ms = session_timeout_ms
            sessions.extend(decision, group.group_id, member, session_timeout_ms)

        return undo

    def _update(self, member: ClassicMember) -> None:
        self._group.soft.update(member, self._protocols)
        member.rebalance_timeout_ms = self._request.rebalance_timeout_ms
        member.session_timeout_ms = self._request.session_timeout_ms

    def _park(self, member: ClassicMember) -> ParkedRequest:
        if member.awaiting_join is not None:
            # The client resent the request on a new connection; the earlier one must be answered.
            refusal = join_error_response(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self._decision.reply(member.awaiting_join, refusal)
        member.awaiting_join = self._directory.next_ticket()
        return ParkedRequest(member.awaiting_join)
