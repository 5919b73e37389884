"""JoinGroup: how members come in, and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Parked
from kafkalite.groups.classic import sessions
from kafkalite.groups.classic.answers import join_refused, joined
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.rebalance import (
    Why,
    maybe_complete,
    prepare,
    prepare_or_complete,
    release,
)
from kafkalite.groups.classic.refusals import refused
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.records import group_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.classic.draft import Draft, Undo
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_TOLD = 10
"""How many protocols an explanation names."""

_REASON = 200
"""How much of a client's reason it quotes."""


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
        max_size = self._config.int("group.max.size")
        if not soft.accepts(request.member_id, max_size):
            soft.remove(request.member_id)
            why = f"the group has {len(soft.members)} of at most {max_size} members"
            facts = {"rule": "group.max.size", "members": len(soft.members), "limit": max_size}
            return self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, why, facts, member_id="")
        if not soft.supports(request.protocol_type, [name for name, _ in self._protocols]):
            return self._refuse_protocols()
        if not request.member_id:
            return self._join_anew()
        if request.member_id in soft.pending_joins:
            if request.group_instance_id is not None:
                why = "its id was given to a member without an instance id"
                facts = {"rule": "group-instance-id"}
                return self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, why, facts, member_id="")
            return self._add(request.member_id)
        return self._rejoin()

    def _refuse(
        self, code: ErrorCode, why: str, facts: Mapping[str, object], *, member_id: MemberId
    ) -> JoinGroupResponse:
        error = refused(code, "join", self._request.member_id, why, facts)
        self._draft.refuse(self._group.group_id, error)
        return join_refused(code, member_id)

    def _refuse_protocols(self) -> JoinGroupResponse:
        soft, request = self._group.soft, self._request
        offered = [name for name, _ in self._protocols]
        why = (
            f"it speaks {request.protocol_type!r} with {', '.join(offered[:_TOLD]) or 'nothing'}; "
            f"the group, {soft.state.value}, {soft.protocol_type!r}"
        )
        facts = {
            "rule": "protocols",
            "protocol_type": request.protocol_type,
            "protocols": offered[:_TOLD],
            "group_protocol_type": soft.protocol_type,
        }
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return self._refuse(code, why, facts, member_id=request.member_id)

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
        named = "" if member.group_instance_id is None else f" of {member.group_instance_id}"
        self._draft.tell(
            group.group_id,
            "joined",
            f"member {member_id}{named} joined group {group.group_id}{self._reason()}",
            member_id=member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
        )
        why = Why("new-member", f"{member_id}{named} joined{self._reason()}", [member_id])
        prepare_or_complete(self._draft, group, self._config, why)
        return parked

    def _reason(self) -> str:
        """Return what the client says it joins for (KIP-800), to follow what we say."""
        reason = self._request.reason
        return f" ({reason[:_REASON]})" if reason else ""

    def _rejoin(self) -> JoinGroupResponse | Parked:
        soft, request = self._group.soft, self._request
        try:
            member = soft.member_of(request.member_id, request.group_instance_id, "join")
        except KafkaError as refusal:
            self._draft.refuse(self._group.group_id, refusal)
            return join_refused(refusal.code, request.member_id)
        is_leader = soft.is_leader(member.member_id)
        is_same = member.protocols == self._protocols
        if soft.state is ClassicState.COMPLETING_REBALANCE and is_same:
            # It may not have received the answer to its last join, so it gets it once more.
            return joined(soft, member.member_id, with_members=is_leader)
        if soft.state is ClassicState.STABLE and is_same and not is_leader:
            return joined(soft, member.member_id, with_members=False)
        # A leader that joins again asks for a rebalance, for instance since topics have changed.
        who = member.member_id
        why = Why("leader-rejoined", f"its leader {who} joined again{self._reason()}", [who])
        if not is_same:
            text = f"{who} has other protocols or subscriptions than before{self._reason()}"
            why = Why("member-changed", text, [who])
        self._update(member)
        parked = self._park(member)
        prepare_or_complete(self._draft, self._group, self._config, why)
        return parked

    def _replace(self, old_id: MemberId, new_id: MemberId) -> JoinGroupResponse | Parked:
        """Let a static member that was restarted take its own place, under a new id (KIP-345)."""
        draft, group = self._draft, self._group
        soft = group.soft
        leader_before = soft.leader_id
        old = soft.members[old_id]
        said_before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        release(draft, old, ErrorCode.FENCED_INSTANCE_ID, old_id)
        sessions.end(draft, group.group_id, old_id)
        member = soft.replace_static(old_id, new_id)
        self._update(member)
        sessions.renew(draft, group.group_id, member, member.session_timeout_ms)
        instance_id = member.group_instance_id
        draft.tell(
            group.group_id,
            "joined",
            f"instance {instance_id} came back as {new_id}, in the place of {old_id}"
            f"{self._reason()}",
            member_id=new_id,
            group_instance_id=instance_id,
            replaced=old_id,
        )
        if soft.state is ClassicState.STABLE and soft.selected_protocol() == soft.protocol_name:
            assignments = {known.member_id: known.assignment for known in soft.members.values()}
            value = soft.to_record(assignments)
            record = group_metadata_record(group.group_id, value)
            draft.record(record, self._put_back(new_id, old_id, *said_before))
            if not self._caller.supports_skipping_assignment:
                # It cannot be told to skip the assignment, so it must not think that it leads.
                return joined(soft, new_id, with_members=False, leader=leader_before)
            is_leader = soft.is_leader(new_id)
            return joined(soft, new_id, with_members=is_leader, skip_assignment=is_leader)
        parked = self._park(member)
        if soft.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(draft, group)
        else:
            text = f"instance {instance_id} came back as {new_id} before all was settled"
            if soft.state is ClassicState.STABLE:
                text = f"instance {instance_id} came back as {new_id} with other protocols"
            prepare(draft, group, self._config, Why("static-member-changed", text, [new_id]))
        return parked

    def _put_back(
        self,
        new_id: MemberId,
        old_id: MemberId,
        protocols: Sequence[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> Undo:
        """Return what gives the place of a static member back to the id that the log knows."""
        group = self._group

        def undo(draft: Draft, error: KafkaError) -> None:
            del error  # whoever came back is told
            member = group.soft.replace_static(new_id, old_id)
            group.soft.update(member, protocols)
            member.rebalance_timeout_ms = rebalance_timeout_ms
            member.session_timeout_ms = session_timeout_ms
            sessions.renew(draft, group.group_id, member, session_timeout_ms)

        return undo

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
