"""Timers of groups: what happens when somebody does nothing for too long.

Each of these waits, so they are played all at once. Whoever shall stay beats well within its
session; whoever shall go has the shortest session there is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.setup import create_topic, ready_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message
    from tests.conformance.world import World

_JOIN, _JOIN_WITHOUT_AN_ID, _SYNC, _HEARTBEAT, _LEAVE = 9, 3, 5, 4, 5
_SHORT_MS = 1_000
_LONG_MS = 30_000
_PAUSE_S = 0.1
_PATIENCE_S = 12.0


def until(world: World, request: Message, version: int, wanted: Callable[[Any], bool]) -> Any:  # noqa: ANN401
    """Ask again and again until the answer is as wanted, which is the one that is noted."""
    end = time.monotonic() + _PATIENCE_S
    while not wanted(world.probe(request, version)) and time.monotonic() < end:
        time.sleep(_PAUSE_S)
    return world.ask(request, version)


def beat_for(world: World, request: Message, seconds: float) -> None:
    """Send heartbeats for a while, and note whether all of them were welcome."""
    end = time.monotonic() + seconds
    codes = set()
    while time.monotonic() < end:
        codes.add(int(world.probe(request, _HEARTBEAT).error_code))
        time.sleep(_PAUSE_S)
    world.note("codes of heartbeats", [*sorted(codes)])


def _fails(found: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(found.error_code)


def _member(
    world: World,
    group: Classic,
    *,
    session_ms: int = _SHORT_MS,
    rebalance_ms: int = _LONG_MS,
    instance: str | None = None,
) -> Any:  # noqa: ANN401
    """Let the first member join and sync; gives its join's answer."""
    ready_group(world, group.group)
    version = _JOIN_WITHOUT_AN_ID if instance is None else _JOIN
    joined = world.ask(
        group.join(
            instance=instance, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms
        ),
        version,
    )
    member, generation = joined.member_id, joined.generation_id
    world.ask(group.sync(member, generation, member, instance=instance), _SYNC)
    world.name_member(member, "the first")
    return joined


def _second(
    world: World, group: Classic, *, session_ms: int = _LONG_MS, rebalance_ms: int = _LONG_MS
) -> None:
    """Send the join of a second member, which waits for the first."""
    request = group.join(session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms)
    world.send(request, _JOIN_WITHOUT_AN_ID, on="second")


def _pair(world: World, group: Classic, session_ms: int, second_ms: int, rebalance_ms: int) -> Any:  # noqa: ANN401
    """Form a generation of two that has no assignment yet; gives both answers."""
    first = _member(world, group, session_ms=_LONG_MS, rebalance_ms=rebalance_ms)
    _second(world, group, session_ms=second_ms, rebalance_ms=rebalance_ms)
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(world, heartbeat, _HEARTBEAT, _fails)
    again = group.join(
        first.member_id, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms
    )
    first = world.probe(again, _JOIN)
    second = world.connection("second").receive()
    world.name_member(second.member_id, "the second")
    return first, second


def a_silent_member_is_missed(world: World) -> None:
    group = Classic(world.name)
    first = _member(world, group)
    described = DescribeGroupsRequest(groups=[world.name])
    until(world, described, 5, lambda found: found.groups[0].group_state == "Empty")
    world.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    world.ask(group.join(first.member_id), _JOIN)


def one_silent_member_makes_the_others_rebalance(world: World) -> None:
    group = Classic(world.name)
    first, second = _pair(world, group, _LONG_MS, _SHORT_MS, _LONG_MS)
    world.send(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    everybody = (first.member_id, second.member_id)
    world.ask(group.sync(first.member_id, first.generation_id, *everybody), _SYNC)
    world.hear("second", asked="the sync of the second")
    until(world, group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT, _fails)
    alone = world.ask(group.join(first.member_id), _JOIN)
    world.ask(group.heartbeat(second.member_id, alone.generation_id), _HEARTBEAT)


def heartbeats_keep_a_member(world: World) -> None:
    group = Classic(world.name)
    first = _member(world, group, session_ms=1_500)
    beat_for(world, group.heartbeat(first.member_id, first.generation_id), 3.0)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)


def commits_keep_a_member(world: World) -> None:
    create_topic(world, world.name)
    group = Classic(world.name, world.name)
    first = _member(world, group, session_ms=1_500)
    request = commit(
        world.name, world.name, 0, member_id=first.member_id, epoch=first.generation_id
    )
    end = time.monotonic() + 3.0
    codes = set()
    while time.monotonic() < end:
        answer = world.probe(request, 8)
        codes.add(int(answer.topics[0].partitions[0].error_code))
        time.sleep(_PAUSE_S)
    world.note("codes of commits", [*sorted(codes)])
    world.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)


def who_does_not_join_again_in_time_is_left_behind(world: World) -> None:
    """Keep the session of the first by heartbeats, and let its rebalance timeout end."""
    group = Classic(world.name)
    first = _member(world, group, session_ms=_LONG_MS, rebalance_ms=1_500)
    _second(world, group, rebalance_ms=_SHORT_MS)
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(world, heartbeat, _HEARTBEAT, lambda found: found.error_code == 25)
    second = world.hear("second", asked="the join of the second")
    world.ask(group.sync(second.member_id, second.generation_id, second.member_id), _SYNC, "second")
    world.ask(group.join(first.member_id), _JOIN)


def who_does_not_ask_for_its_assignment_is_left_behind(world: World) -> None:
    group = Classic(world.name)
    first, second = _pair(world, group, _LONG_MS, _LONG_MS, _SHORT_MS)
    everybody = (first.member_id, second.member_id)
    world.ask(group.sync(first.member_id, first.generation_id, *everybody), _SYNC)
    until(world, group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT, _fails)
    world.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    world.ask(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    world.ask(group.join(first.member_id), _JOIN)


def a_leader_that_never_assigns_is_left_behind(world: World) -> None:
    group = Classic(world.name)
    first, second = _pair(world, group, _LONG_MS, _LONG_MS, _SHORT_MS)
    world.send(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    world.hear("second", asked="the sync of the second")
    world.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    world.ask(group.join(second.member_id), _JOIN, on="second")


def an_id_that_nobody_uses_is_taken_back(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(session_timeout_ms=_SHORT_MS), _JOIN)
    time.sleep(1.6)
    world.ask(group.join(refused.member_id, session_timeout_ms=_SHORT_MS), _JOIN)
    world.ask(group.leave(refused.member_id), _LEAVE)


def an_id_that_nobody_uses_holds_a_rebalance_up(world: World) -> None:
    group = Classic(world.name)
    first = _member(world, group, session_ms=_LONG_MS)
    world.ask(group.join(session_timeout_ms=_SHORT_MS), _JOIN, on="second")
    begin = time.monotonic()
    again = world.ask(group.join(first.member_id), _JOIN)
    world.note("it took a session", time.monotonic() - begin > 0.7)
    world.note("the next generation", again.generation_id == first.generation_id + 1)


def a_static_member_may_be_away_for_a_session(world: World) -> None:
    group = Classic(world.name)
    first = _member(world, group, session_ms=1_500, instance="i-1")
    time.sleep(0.5)
    back = world.ask(group.join(instance="i-1", session_timeout_ms=_SHORT_MS), _JOIN)
    world.note("same generation", back.generation_id == first.generation_id)
    described = DescribeGroupsRequest(groups=[world.name])
    until(world, described, 5, lambda found: found.groups[0].group_state == "Empty")
    world.ask(group.heartbeat(back.member_id, back.generation_id, "i-1"), _HEARTBEAT)
    again = world.ask(group.join(instance="i-1"), _JOIN)
    world.note("a new generation", again.generation_id > back.generation_id)


def a_static_member_is_kept_in_a_rebalance_it_misses(world: World) -> None:
    group = Classic(world.name)
    first = _member(world, group, session_ms=5_000, rebalance_ms=_SHORT_MS, instance="i-1")
    _second(world, group, rebalance_ms=_SHORT_MS)
    second = world.hear("second", asked="the join of the second")
    world.note("members", len(second.members))
    world.ask(group.heartbeat(first.member_id, second.generation_id, "i-1"), _HEARTBEAT)
    everybody = (first.member_id, second.member_id)
    world.ask(group.sync(second.member_id, second.generation_id, *everybody), _SYNC, on="second")
    world.ask(group.sync(first.member_id, second.generation_id, instance="i-1"), _SYNC)


def a_static_member_that_returns_before_its_sync_costs_a_rebalance(world: World) -> None:
    """Await the sync of the id that was replaced, as Kafka does although nobody has it any more."""
    group = Classic(world.name)
    first = _member(world, group, session_ms=_LONG_MS, rebalance_ms=_SHORT_MS)
    request = group.join(
        instance="i-2", session_timeout_ms=_LONG_MS, rebalance_timeout_ms=_SHORT_MS
    )
    world.send(request, _JOIN, on="second")
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(world, heartbeat, _HEARTBEAT, _fails)
    again = group.join(first.member_id, session_timeout_ms=_LONG_MS, rebalance_timeout_ms=_SHORT_MS)
    first = world.probe(again, _JOIN)
    second = world.connection("second").receive()
    world.name_member(second.member_id, "the second")
    everybody = (first.member_id, second.member_id)
    world.ask(group.sync(first.member_id, first.generation_id, *everybody), _SYNC)
    back = world.ask(request, _JOIN, on="second")
    sync = group.sync(back.member_id, back.generation_id, instance="i-2")
    world.ask(sync, _SYNC, on="second")
    end = time.monotonic() + 2.5
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    codes = set()
    while time.monotonic() < end:
        codes.add(int(world.probe(heartbeat, _HEARTBEAT).error_code))
        time.sleep(_PAUSE_S)
    world.note("codes of heartbeats", [*sorted(codes)])


def who_takes_no_time_to_rejoin_is_gone_at_once(world: World) -> None:
    for index, rebalance_ms in enumerate((0, -1, -(1 << 31))):
        name = f"{world.name}-{index}"
        ready_group(world, name)
        group = Classic(name)
        request = group.join(rebalance_timeout_ms=rebalance_ms)
        joined = world.ask(request, _JOIN_WITHOUT_AN_ID)
        time.sleep(0.5)
        member, generation = joined.member_id, joined.generation_id
        world.ask(group.sync(member, generation, member), _SYNC)
        world.ask(group.heartbeat(member, generation), _HEARTBEAT)
        world.ask(DescribeGroupsRequest(groups=[name]), 5)


def waiting_for_a_rebalance_stands_for_heartbeats(world: World) -> None:
    """Let a join wait for longer than a session, since an id was given to a third."""
    group = Classic(world.name)
    first = _member(world, group, session_ms=_LONG_MS, rebalance_ms=2_500)
    refused = world.ask(group.join(session_timeout_ms=2_000), _JOIN, on="third")
    begin = time.monotonic()
    again = world.ask(
        group.join(first.member_id, session_timeout_ms=_SHORT_MS, rebalance_timeout_ms=_LONG_MS),
        _JOIN,
    )
    world.note("it took longer than its session", time.monotonic() - begin > 1.5)
    world.ask(group.sync(again.member_id, again.generation_id, again.member_id), _SYNC)
    world.ask(group.join(refused.member_id), _JOIN, on="third")


def a_silent_consumer_is_missed(world: World) -> None:
    group = new_group(world)
    key = "consumer.session.timeout.ms"
    world.ask(alter(GROUP, group.group, (key, SET, "1000")), 1)
    settled(world, key, "1000", kind=GROUP)
    first = world.ask(group.join("a"), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(world, described, 1, lambda found: not found.groups[0].members)
    world.ask(group.heartbeat("a", first.member_epoch), 1)
    again = world.ask(group.join("a"), 1)
    world.note("a later epoch", again.member_epoch > first.member_epoch)


def a_static_consumer_may_be_away_for_a_session(world: World) -> None:
    group = new_group(world)
    key = "consumer.session.timeout.ms"
    world.ask(alter(GROUP, group.group, (key, SET, "1500")), 1)
    settled(world, key, "1500", kind=GROUP)
    world.ask(group.join("a", instance_id="i-1"), 1)
    world.ask(group.heartbeat("a", -2, instance_id="i-1"), 1)
    time.sleep(0.5)
    world.ask(group.join("b", instance_id="i-1"), 1)
    world.ask(group.heartbeat("b", -2, instance_id="i-1"), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(world, described, 1, lambda found: not found.groups[0].members)
    world.ask(group.heartbeat("b", 3, instance_id="i-1"), 1)


def a_consumer_that_gives_nothing_up_is_fenced(world: World) -> None:
    group = new_group(world)
    first = world.ask(group.join("a", rebalance_timeout_ms=_SHORT_MS), 1)
    second = world.ask(group.join("b"), 1)
    world.ask(group.heartbeat("a", first.member_epoch), 1)
    until(world, group.heartbeat("a", first.member_epoch), 1, _fails)
    world.ask(group.heartbeat("b", second.member_epoch), 1)
    again = world.ask(group.join("a"), 1)
    world.note("a later epoch", again.member_epoch > second.member_epoch)


WAITING = (
    a_silent_member_is_missed,
    one_silent_member_makes_the_others_rebalance,
    heartbeats_keep_a_member,
    commits_keep_a_member,
    who_does_not_join_again_in_time_is_left_behind,
    who_does_not_ask_for_its_assignment_is_left_behind,
    a_leader_that_never_assigns_is_left_behind,
    an_id_that_nobody_uses_is_taken_back,
    an_id_that_nobody_uses_holds_a_rebalance_up,
    a_static_member_may_be_away_for_a_session,
    a_static_member_is_kept_in_a_rebalance_it_misses,
    a_static_member_that_returns_before_its_sync_costs_a_rebalance,
    who_takes_no_time_to_rejoin_is_gone_at_once,
    waiting_for_a_rebalance_stands_for_heartbeats,
    a_silent_consumer_is_missed,
    a_static_consumer_may_be_away_for_a_session,
    a_consumer_that_gives_nothing_up_is_fenced,
)
