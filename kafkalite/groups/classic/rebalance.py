"""The rebalance of a classic group: collect joins, start a generation, wait for syncs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.classic import sessions
from kafkalite.groups.classic.membership import ClassicState
from kafkalite.groups.classic.responses import (
    join_error_response,
    join_response,
    sync_error_response,
)
from kafkalite.groups.offsets_topic_records import group_metadata_record
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import count_text
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.classic.decision import DecisionBuilder
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.protocol.errors import KafkaError


@dataclass(frozen=True, slots=True)
class InitialDelayEnded:
    """Timer event: a first rebalance waited `delay_ms` and may wait `remaining_ms` longer."""

    group_id: GroupId
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class JoinExpired:
    """Timer event: the rebalance timeout for joins expired."""

    group_id: GroupId


@dataclass(frozen=True, slots=True)
class SyncExpired:
    """Timer event: the rebalance timeout for syncs of this generation expired."""

    group_id: GroupId
    generation_id: int


def join_key(group: ClassicGroup) -> tuple[str, GroupId]:
    """Return the key of the group's join timer."""
    return ("classic-join", group.group_id)


def sync_key(group: ClassicGroup) -> tuple[str, GroupId]:
    """Return the key of the group's sync timer."""
    return ("classic-sync", group.group_id)


class RebalanceReason(NamedTuple):
    """The reason for a rebalance."""

    rule: str
    """A short name of the reason."""
    text: str
    """The reason as a part of a sentence."""
    members: Sequence[MemberId] = ()
    """The members that caused it."""


_MAX_NAMED = 20
"""The maximum number of members that an event names."""

_MAY_REBALANCE = frozenset(
    (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY)
)


def prepare_or_complete_join(
    decision: DecisionBuilder, group: ClassicGroup, config: BrokerConfig, reason: RebalanceReason
) -> None:
    """Start a rebalance. A join phase that runs already is completed if all members have joined."""
    if group.soft.state in _MAY_REBALANCE:
        prepare(decision, group, config, reason)
    else:
        complete_join_unless_delayed(decision, group)


def prepare(
    decision: DecisionBuilder, group: ClassicGroup, config: BrokerConfig, reason: RebalanceReason
) -> None:
    """Start the join phase of a rebalance.

    From state Empty the join phase takes at least the initial delay, so that members that start
    together form one generation. Otherwise it ends when all members have joined, at the latest
    after the group's rebalance timeout.
    """
    soft = group.soft
    if soft.state is ClassicState.COMPLETING_REBALANCE:
        cancel_syncs(decision, group, ErrorCode.REBALANCE_IN_PROGRESS)
    decision.cancel_timer(sync_key(group))
    soft.pending_syncs.clear()
    is_initial = soft.state is ClassicState.EMPTY
    _add_rebalance_event(decision, group, reason)
    soft.move_to(ClassicState.PREPARING_REBALANCE, decision.now_ms)
    if is_initial:
        delay_ms = config.int("group.initial.rebalance.delay.ms")
        remaining_ms = max(soft.rebalance_timeout_ms() - delay_ms, 0)
        event = InitialDelayEnded(group.group_id, delay_ms, remaining_ms)
        decision.set_timer(join_key(group), decision.now_ms + delay_ms, event)
    elif soft.has_all_members_joined():
        complete_join(decision, group)
    else:
        set_join_timer(decision, group)


def _add_rebalance_event(
    decision: DecisionBuilder, group: ClassicGroup, reason: RebalanceReason
) -> None:
    soft = group.soft
    decision.add_event(
        group.group_id,
        "rebalance",
        f"group {group.group_id} leaves generation {soft.generation_id}, {soft.state.value}, and "
        f"rebalances: {reason.text}",
        rule=reason.rule,
        generation=soft.generation_id,
        state=soft.state.value,
        triggered_by_members=list(reason.members[:_MAX_NAMED]),
        members=len(soft.members),
    )


def set_join_timer(decision: DecisionBuilder, group: ClassicGroup) -> None:
    """Set the timer that completes the join phase after the group's rebalance timeout."""
    deadline_ms = decision.now_ms + group.soft.rebalance_timeout_ms()
    decision.set_timer(join_key(group), deadline_ms, JoinExpired(group.group_id))


def complete_join_unless_delayed(decision: DecisionBuilder, group: ClassicGroup) -> None:
    """Complete the join phase if all members have joined and no initial delay is running."""
    soft = group.soft
    if (
        soft.state is ClassicState.PREPARING_REBALANCE
        and soft.previous_state is not ClassicState.EMPTY
        and soft.has_all_members_joined()
    ):
        complete_join(decision, group)


def complete_join_if_all_joined(decision: DecisionBuilder, group: ClassicGroup) -> None:
    """Complete the join phase if all members have joined, even during an initial delay.

    This applies when a session expires, but not when a member leaves or joins.
    """
    soft = group.soft
    if soft.state is ClassicState.PREPARING_REBALANCE and soft.has_all_members_joined():
        complete_join(decision, group)


def end_initial_delay(
    decision: DecisionBuilder, group: ClassicGroup, event: InitialDelayEnded, config: BrokerConfig
) -> None:
    """Extend the delay if a member has joined and time remains, otherwise complete."""
    soft = group.soft
    if not soft.new_member_added or event.remaining_ms == 0:
        complete_join(decision, group)
        return
    soft.new_member_added = False
    delay_ms = min(config.int("group.initial.rebalance.delay.ms"), event.remaining_ms)
    remaining_ms = max(event.remaining_ms - event.delay_ms, 0)
    decision.set_timer(
        join_key(group),
        decision.now_ms + delay_ms,
        InitialDelayEnded(group.group_id, delay_ms, remaining_ms),
    )


def complete_join(decision: DecisionBuilder, group: ClassicGroup) -> None:
    """End the join phase: remove absent dynamic members, start the next generation."""
    soft = group.soft
    decision.cancel_timer(join_key(group))
    absent = [
        member
        for member in soft.members.values()
        if member.awaiting_join is None and member.group_instance_id is None
    ]
    for member in absent:
        soft.remove(member.member_id)
        sessions.cancel_timer(decision, group.group_id, member.member_id)
        decision.add_event(
            group.group_id,
            "expired",
            f"member {member.member_id} removed: it did not rejoin within the rebalance timeout, "
            f"{member.client}",
            rule="rebalance-timeout",
            member_id=member.member_id,
            generation=soft.generation_id,
            **member.client_facts(),
        )
    if not soft.elect_leader() and soft.members:
        # Only static members remain and none has joined: wait until their sessions expire.
        set_join_timer(decision, group)
        return
    soft.begin_generation(decision.now_ms)
    _add_generation_event(decision, group, [member.member_id for member in absent])
    if soft.state is ClassicState.EMPTY:
        record = group_metadata_record(group.group_id, soft.to_record({}))
        decision.record(record, _keep_group_empty)
        return
    for member in soft.members.values():
        answer_join(decision, group, member)
        sessions.extend(decision, group.group_id, member, member.session_timeout_ms)
        member.is_new = False
        soft.pending_syncs.add(member.member_id)
    event = SyncExpired(group.group_id, soft.generation_id)
    decision.set_timer(sync_key(group), decision.now_ms + soft.rebalance_timeout_ms(), event)


def _keep_group_empty(decision: DecisionBuilder, error: KafkaError) -> None:
    """Keep the group Empty although the append of its record failed.

    After a restart its last members would exist again until their sessions expire.
    """


def _add_generation_event(
    decision: DecisionBuilder, group: ClassicGroup, absent: Sequence[MemberId]
) -> None:
    soft = group.soft
    absent_text = (
        f", without {', '.join(absent[:_MAX_NAMED])}, which did not rejoin" if absent else ""
    )
    text = (
        f"generation {soft.generation_id} of group {group.group_id} begins with "
        f"{count_text(len(soft.members), 'member')}, led by {soft.leader_id}, protocol "
        f"{soft.protocol_name}"
        if soft.members
        else f"group {group.group_id} is Empty as of generation {soft.generation_id}"
    )
    decision.add_event(
        group.group_id,
        "generation",
        text + absent_text,
        generation=soft.generation_id,
        members=len(soft.members),
        member_ids=list(soft.members)[:_MAX_NAMED],
        leader=soft.leader_id,
        protocol=soft.protocol_name,
        removed_members=list(absent[:_MAX_NAMED]),
    )


def answer_join(decision: DecisionBuilder, group: ClassicGroup, member: ClassicMember) -> None:
    """Answer a waiting JoinGroup, if there is one, with the current generation."""
    if member.awaiting_join is not None:
        is_leader = group.soft.is_leader(member.member_id)
        response = join_response(group.soft, member.member_id, with_members=is_leader)
        decision.reply(member.awaiting_join, response)
        member.awaiting_join = None


def cancel_syncs(decision: DecisionBuilder, group: ClassicGroup, code: ErrorCode) -> None:
    """Clear all assignments, and answer waiting SyncGroups with an error."""
    for member in group.soft.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            decision.reply(member.awaiting_sync, sync_error_response(code))
            member.awaiting_sync = None
            sessions.extend(decision, group.group_id, member, member.session_timeout_ms)


def refuse_waiting_requests(
    decision: DecisionBuilder, member: ClassicMember, code: ErrorCode, member_id: str
) -> None:
    """Answer the waiting requests of a removed member with an error."""
    if member.awaiting_join is not None:
        decision.reply(member.awaiting_join, join_error_response(code, member_id))
        member.awaiting_join = None
    if member.awaiting_sync is not None:
        decision.reply(member.awaiting_sync, sync_error_response(code))
        member.awaiting_sync = None


def remove_member(decision: DecisionBuilder, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member and answer its waiting requests; the caller rebalances."""
    refuse_waiting_requests(decision, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    group.soft.remove(member.member_id)
    sessions.cancel_timer(decision, group.group_id, member.member_id)


def record_sync(decision: DecisionBuilder, group: ClassicGroup, member: ClassicMember) -> None:
    """Record that a member has sent SyncGroup in this generation."""
    pending = group.soft.pending_syncs
    pending.discard(member.member_id)
    if not pending:
        decision.cancel_timer(sync_key(group))


def expire_syncs(
    decision: DecisionBuilder, group: ClassicGroup, event: SyncExpired, config: BrokerConfig
) -> None:
    """Remove the members without a SyncGroup in this generation, and rebalance."""
    soft = group.soft
    awaits_syncs = soft.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if not awaits_syncs or event.generation_id != soft.generation_id or not soft.pending_syncs:
        return
    members_without_sync = sorted(soft.pending_syncs)
    for member_id in members_without_sync:
        member = soft.remove(member_id)
        sessions.cancel_timer(decision, group.group_id, member_id)
        decision.add_event(
            group.group_id,
            "expired",
            f"member {member_id} removed: it sent no SyncGroup in generation {soft.generation_id}"
            + (f", {member.client}" if member else ""),
            rule="sync-timeout",
            member_id=member_id,
            generation=soft.generation_id,
            **(member.client_facts() if member else {}),
        )
    text = f"{count_text(len(members_without_sync), 'member')} sent no SyncGroup in time"
    prepare(decision, group, config, RebalanceReason("sync-timeout", text, members_without_sync))
