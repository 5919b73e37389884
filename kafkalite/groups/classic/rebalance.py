"""The rebalance of a classic group: collect the joins, begin a generation, await the syncs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.classic import sessions
from kafkalite.groups.classic.answers import join_refused, joined, sync_refused
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.records import group_metadata_record
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.classic.draft import Draft
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.classic.member import ClassicMember
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.protocol.errors import KafkaError


@dataclass(frozen=True, slots=True)
class InitialDelayEnded:
    """Timer event: a first rebalance has waited `delay_ms`, and may wait `remaining_ms` more."""

    group_id: GroupId
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class JoinExpired:
    """Timer event: the members had as long to rejoin as the slowest of them asked for."""

    group_id: GroupId


@dataclass(frozen=True, slots=True)
class SyncExpired:
    """Timer event: the members of this generation had their time to send SyncGroup."""

    group_id: GroupId
    generation_id: int


def join_key(group: ClassicGroup) -> tuple[str, GroupId]:
    """Return the timer key under which a group awaits its joins."""
    return ("classic-join", group.group_id)


def sync_key(group: ClassicGroup) -> tuple[str, GroupId]:
    """Return the timer key under which a group awaits its syncs."""
    return ("classic-sync", group.group_id)


class Why(NamedTuple):
    """What made a group rebalance."""

    rule: str
    """In a word."""
    text: str
    """In a sentence without its end."""
    members: Sequence[MemberId] = ()
    """Whose doing it was."""


_TOLD = 20
"""How many members an event names."""

_MAY_REBALANCE = frozenset(
    (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY)
)


def prepare_or_complete(draft: Draft, group: ClassicGroup, config: BrokerConfig, why: Why) -> None:
    """Begin a rebalance, or if one is running see whether it has all its members."""
    if group.soft.state in _MAY_REBALANCE:
        prepare(draft, group, config, why)
    else:
        maybe_complete(draft, group)


def prepare(draft: Draft, group: ClassicGroup, config: BrokerConfig, why: Why) -> None:
    """Begin to collect joins, and tell why.

    From Empty it takes at least the initial delay, so that members starting together form one
    generation; otherwise until all have joined, at most the group's rebalance timeout.
    """
    soft = group.soft
    if soft.state is ClassicState.COMPLETING_REBALANCE:
        release_syncs(draft, group, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.cancel_timer(sync_key(group))
    soft.pending_syncs.clear()
    is_initial = soft.state is ClassicState.EMPTY
    _tell_begun(draft, group, why)
    soft.move_to(ClassicState.PREPARING_REBALANCE, draft.now_ms)
    if is_initial:
        delay_ms = config.int("group.initial.rebalance.delay.ms")
        remaining_ms = max(soft.rebalance_timeout_ms() - delay_ms, 0)
        event = InitialDelayEnded(group.group_id, delay_ms, remaining_ms)
        draft.set_timer(join_key(group), draft.now_ms + delay_ms, event)
    elif soft.has_all_members_joined():
        complete(draft, group)
    else:
        await_joins(draft, group)


def _tell_begun(draft: Draft, group: ClassicGroup, why: Why) -> None:
    soft = group.soft
    draft.tell(
        group.group_id,
        "rebalance",
        f"group {group.group_id} leaves generation {soft.generation_id}, {soft.state.value}, and "
        f"rebalances: {why.text}",
        rule=why.rule,
        generation=soft.generation_id,
        state=soft.state.value,
        because_of=list(why.members[:_TOLD]),
        members=len(soft.members),
    )


def await_joins(draft: Draft, group: ClassicGroup) -> None:
    """Complete the join phase after the group's rebalance timeout, whoever has joined by then."""
    deadline_ms = draft.now_ms + group.soft.rebalance_timeout_ms()
    draft.set_timer(join_key(group), deadline_ms, JoinExpired(group.group_id))


def maybe_complete(draft: Draft, group: ClassicGroup) -> None:
    """Complete the join phase if everybody has joined; never before an initial delay ends."""
    soft = group.soft
    if (
        soft.state is ClassicState.PREPARING_REBALANCE
        and soft.previous_state is not ClassicState.EMPTY
        and soft.has_all_members_joined()
    ):
        complete(draft, group)


def complete_if_all_joined(draft: Draft, group: ClassicGroup) -> None:
    """Complete the join phase if nobody is left to wait for, be it before an initial delay ends.

    So it goes when a session ends, unlike when a member leaves or joins.
    """
    soft = group.soft
    if soft.state is ClassicState.PREPARING_REBALANCE and soft.has_all_members_joined():
        complete(draft, group)


def end_initial_delay(
    draft: Draft, group: ClassicGroup, event: InitialDelayEnded, config: BrokerConfig
) -> None:
    """Wait once more if somebody joined meanwhile and there is time left, else complete."""
    soft = group.soft
    if not soft.new_member_added or event.remaining_ms == 0:
        complete(draft, group)
        return
    soft.new_member_added = False
    delay_ms = min(config.int("group.initial.rebalance.delay.ms"), event.remaining_ms)
    remaining_ms = max(event.remaining_ms - event.delay_ms, 0)
    draft.set_timer(
        join_key(group),
        draft.now_ms + delay_ms,
        InitialDelayEnded(group.group_id, delay_ms, remaining_ms),
    )


def complete(draft: Draft, group: ClassicGroup) -> None:
    """End the join phase: drop dynamic members who did not rejoin, begin the next generation."""
    soft = group.soft
    draft.cancel_timer(join_key(group))
    absent = [
        member
        for member in soft.members.values()
        if member.awaiting_join is None and member.group_instance_id is None
    ]
    for member in absent:
        soft.remove(member.member_id)
        sessions.end(draft, group.group_id, member.member_id)
    if not soft.elect_leader() and soft.members:
        # Only static members are left and none is here; their sessions decide, so wait on.
        await_joins(draft, group)
        return
    soft.begin_generation(draft.now_ms)
    _tell_generation(draft, group, [member.member_id for member in absent])
    if soft.state is ClassicState.EMPTY:
        record = group_metadata_record(group.group_id, soft.to_record({}))
        draft.record(record, _stay_empty)
        return
    for member in soft.members.values():
        answer_join(draft, group, member)
        sessions.renew(draft, group.group_id, member, member.session_timeout_ms)
        member.is_new = False
        soft.pending_syncs.add(member.member_id)
    event = SyncExpired(group.group_id, soft.generation_id)
    draft.set_timer(sync_key(group), draft.now_ms + soft.rebalance_timeout_ms(), event)


def _stay_empty(draft: Draft, error: KafkaError) -> None:
    """Leave the group Empty although no record says so.

    After a restart its last members would be back, and be missed after one session.
    """


def _tell_generation(draft: Draft, group: ClassicGroup, absent: Sequence[MemberId]) -> None:
    soft = group.soft
    without = f", without {', '.join(absent[:_TOLD])}, who did not join again" if absent else ""
    text = (
        f"generation {soft.generation_id} of group {group.group_id} begins with "
        f"{len(soft.members)} member(s), led by {soft.leader_id}, protocol {soft.protocol_name}"
        if soft.members
        else f"group {group.group_id} is Empty as of generation {soft.generation_id}"
    )
    draft.tell(
        group.group_id,
        "generation",
        text + without,
        generation=soft.generation_id,
        members=list(soft.members)[:_TOLD],
        count=len(soft.members),
        leader=soft.leader_id,
        protocol=soft.protocol_name,
        dropped=list(absent[:_TOLD]),
    )


def answer_join(draft: Draft, group: ClassicGroup, member: ClassicMember) -> None:
    """Answer a parked JoinGroup, if there is one, with the current generation."""
    if member.awaiting_join is not None:
        is_leader = group.soft.is_leader(member.member_id)
        response = joined(group.soft, member.member_id, with_members=is_leader)
        draft.reply(member.awaiting_join, response)
        member.awaiting_join = None


def release_syncs(draft: Draft, group: ClassicGroup, code: ErrorCode) -> None:
    """Take back all assignments and answer whoever waits for one with an error."""
    for member in group.soft.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            draft.reply(member.awaiting_sync, sync_refused(code))
            member.awaiting_sync = None
            sessions.renew(draft, group.group_id, member, member.session_timeout_ms)


def release(draft: Draft, member: ClassicMember, code: ErrorCode, member_id: str) -> None:
    """Answer what a member that goes away was waiting for."""
    if member.awaiting_join is not None:
        draft.reply(member.awaiting_join, join_refused(code, member_id))
        member.awaiting_join = None
    if member.awaiting_sync is not None:
        draft.reply(member.awaiting_sync, sync_refused(code))
        member.awaiting_sync = None


def strike_off(draft: Draft, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member and answer what it was waiting for; to rebalance is for the caller."""
    release(draft, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    group.soft.remove(member.member_id)
    sessions.end(draft, group.group_id, member.member_id)


def sync_received(draft: Draft, group: ClassicGroup, member: ClassicMember) -> None:
    """Take note that a member has sent SyncGroup in this generation."""
    pending = group.soft.pending_syncs
    pending.discard(member.member_id)
    if not pending:
        draft.cancel_timer(sync_key(group))


def expire_syncs(
    draft: Draft, group: ClassicGroup, event: SyncExpired, config: BrokerConfig
) -> None:
    """Drop the members that never synced in this generation, and rebalance without them."""
    soft = group.soft
    awaits_syncs = soft.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if not awaits_syncs or event.generation_id != soft.generation_id or not soft.pending_syncs:
        return
    silent = sorted(soft.pending_syncs)
    for member_id in silent:
        soft.remove(member_id)
        sessions.end(draft, group.group_id, member_id)
        draft.tell(
            group.group_id,
            "expired",
            f"member {member_id} did not ask for its assignment in generation "
            f"{soft.generation_id} and was removed",
            rule="sync-timeout",
            member_id=member_id,
            generation=soft.generation_id,
        )
    text = f"{len(silent)} member(s) sent no SyncGroup in time"
    prepare(draft, group, config, Why("sync-timeout", text, silent))
