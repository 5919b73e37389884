"""Timers of groups: members that exceed a timeout.

Each of these scenarios waits, so they run concurrently. Members that should stay send heartbeats
well within their session timeouts. Members that should be removed have the shortest possible one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message
    from tests.conformance.scenario_cluster import ScenarioCluster

_JOIN, _JOIN_WITHOUT_AN_ID, _SYNC, _HEARTBEAT, _LEAVE = 9, 3, 5, 4, 5
_SHORT_MS = 1_000
_LONG_MS = 30_000
_PAUSE_S = 0.1
_PATIENCE_S = 12.0


def until(
    cluster: ScenarioCluster, request: Message, version: int, is_expected: Callable[[Any], bool]
) -> Any:  # noqa: ANN401
    """Repeat a request until the response is as expected; only this response is noted."""
    end = time.monotonic() + _PATIENCE_S
    while not is_expected(cluster.probe(request, version)) and time.monotonic() < end:
        time.sleep(_PAUSE_S)
    return cluster.ask(request, version)


def beat_for(cluster: ScenarioCluster, request: Message, seconds: float) -> None:
    """Send heartbeats for a while, and note whether all of them were accepted."""
    end = time.monotonic() + seconds
    codes = set()
    while time.monotonic() < end:
        codes.add(int(cluster.probe(request, _HEARTBEAT).error_code))
        time.sleep(_PAUSE_S)
    cluster.record("codes of heartbeats", [*sorted(codes)])


def _fails(found: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(found.error_code)


def _member(
    cluster: ScenarioCluster,
    group: Classic,
    *,
    session_ms: int = _SHORT_MS,
    rebalance_ms: int = _LONG_MS,
    instance: str | None = None,
) -> Any:  # noqa: ANN401
    """Let the first member join and sync; return the answer to its join."""
    wait_for_group_coordinator(cluster, group.group)
    version = _JOIN_WITHOUT_AN_ID if instance is None else _JOIN
    joined = cluster.ask(
        group.join(
            instance=instance, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms
        ),
        version,
    )
    member, generation = joined.member_id, joined.generation_id
    cluster.ask(group.sync(member, generation, member, instance=instance), _SYNC)
    cluster.name_member(member, "the first")
    return joined


def _second(
    cluster: ScenarioCluster,
    group: Classic,
    *,
    session_ms: int = _LONG_MS,
    rebalance_ms: int = _LONG_MS,
) -> None:
    """Send the join of a second member, which waits for the first."""
    request = group.join(session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms)
    cluster.send(request, _JOIN_WITHOUT_AN_ID, on="second")


def _pair(
    cluster: ScenarioCluster, group: Classic, session_ms: int, second_ms: int, rebalance_ms: int
) -> Any:  # noqa: ANN401
    """Create a generation of two members without assignment; return both answers."""
    first = _member(cluster, group, session_ms=_LONG_MS, rebalance_ms=rebalance_ms)
    _second(cluster, group, session_ms=second_ms, rebalance_ms=rebalance_ms)
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(cluster, heartbeat, _HEARTBEAT, _fails)
    again = group.join(
        first.member_id, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms
    )
    first = cluster.probe(again, _JOIN)
    second = cluster.connection("second").receive()
    cluster.name_member(second.member_id, "the second")
    return first, second


def a_member_without_heartbeats_is_removed(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first = _member(cluster, group)
    described = DescribeGroupsRequest(groups=[cluster.name])
    until(cluster, described, 5, lambda found: found.groups[0].group_state == "Empty")
    cluster.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    cluster.ask(group.join(first.member_id), _JOIN)


def a_removed_member_causes_a_rebalance(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = _pair(cluster, group, _LONG_MS, _SHORT_MS, _LONG_MS)
    cluster.send(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    all_members = (first.member_id, second.member_id)
    cluster.ask(group.sync(first.member_id, first.generation_id, *all_members), _SYNC)
    cluster.receive("second", title="the sync of the second")
    until(cluster, group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT, _fails)
    alone = cluster.ask(group.join(first.member_id), _JOIN)
    cluster.ask(group.heartbeat(second.member_id, alone.generation_id), _HEARTBEAT)


def heartbeats_extend_a_session(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=1_500)
    beat_for(cluster, group.heartbeat(first.member_id, first.generation_id), 3.0)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)


def commits_extend_a_session(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group = Classic(cluster.name, cluster.name)
    first = _member(cluster, group, session_ms=1_500)
    request = commit(
        cluster.name, cluster.name, 0, member_id=first.member_id, epoch=first.generation_id
    )
    end = time.monotonic() + 3.0
    codes = set()
    while time.monotonic() < end:
        answer = cluster.probe(request, 8)
        codes.add(int(answer.topics[0].partitions[0].error_code))
        time.sleep(_PAUSE_S)
    cluster.record("codes of commits", [*sorted(codes)])
    cluster.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)


def a_member_that_does_not_rejoin_in_time_is_removed(cluster: ScenarioCluster) -> None:
    """Extend the first member's session by heartbeats until its rebalance timeout expires."""
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=_LONG_MS, rebalance_ms=1_500)
    _second(cluster, group, rebalance_ms=_SHORT_MS)
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(cluster, heartbeat, _HEARTBEAT, lambda found: found.error_code == 25)
    second = cluster.receive("second", title="the join of the second")
    cluster.ask(
        group.sync(second.member_id, second.generation_id, second.member_id), _SYNC, "second"
    )
    cluster.ask(group.join(first.member_id), _JOIN)


def a_member_that_does_not_sync_in_time_is_removed(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = _pair(cluster, group, _LONG_MS, _LONG_MS, _SHORT_MS)
    all_members = (first.member_id, second.member_id)
    cluster.ask(group.sync(first.member_id, first.generation_id, *all_members), _SYNC)
    until(cluster, group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT, _fails)
    cluster.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    cluster.ask(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    cluster.ask(group.join(first.member_id), _JOIN)


def a_leader_that_does_not_assign_in_time_is_removed(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = _pair(cluster, group, _LONG_MS, _LONG_MS, _SHORT_MS)
    cluster.send(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    cluster.receive("second", title="the sync of the second")
    cluster.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    cluster.ask(group.join(second.member_id), _JOIN, on="second")


def an_unused_member_id_expires(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(session_timeout_ms=_SHORT_MS), _JOIN)
    time.sleep(1.6)
    cluster.ask(group.join(refused.member_id, session_timeout_ms=_SHORT_MS), _JOIN)
    cluster.ask(group.leave(refused.member_id), _LEAVE)


def an_unused_member_id_delays_a_rebalance(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=_LONG_MS)
    cluster.ask(group.join(session_timeout_ms=_SHORT_MS), _JOIN, on="second")
    begin = time.monotonic()
    again = cluster.ask(group.join(first.member_id), _JOIN)
    cluster.record("it took a session", time.monotonic() - begin > 0.7)
    cluster.record("the next generation", again.generation_id == first.generation_id + 1)


def a_static_member_may_be_away_for_a_session(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=1_500, instance="i-1")
    time.sleep(0.5)
    back = cluster.ask(group.join(instance="i-1", session_timeout_ms=_SHORT_MS), _JOIN)
    cluster.record("same generation", back.generation_id == first.generation_id)
    described = DescribeGroupsRequest(groups=[cluster.name])
    until(cluster, described, 5, lambda found: found.groups[0].group_state == "Empty")
    cluster.ask(group.heartbeat(back.member_id, back.generation_id, "i-1"), _HEARTBEAT)
    again = cluster.ask(group.join(instance="i-1"), _JOIN)
    cluster.record("a new generation", again.generation_id > back.generation_id)


def a_static_member_that_misses_a_rebalance_stays(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=5_000, rebalance_ms=_SHORT_MS, instance="i-1")
    _second(cluster, group, rebalance_ms=_SHORT_MS)
    second = cluster.receive("second", title="the join of the second")
    cluster.record("members", len(second.members))
    cluster.ask(group.heartbeat(first.member_id, second.generation_id, "i-1"), _HEARTBEAT)
    all_members = (first.member_id, second.member_id)
    cluster.ask(
        group.sync(second.member_id, second.generation_id, *all_members), _SYNC, on="second"
    )
    cluster.ask(group.sync(first.member_id, second.generation_id, instance="i-1"), _SYNC)


def a_static_member_that_returns_before_its_sync_causes_a_rebalance(
    cluster: ScenarioCluster,
) -> None:
    """Wait for the sync of the replaced member id, which no client will send, as Kafka does."""
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=_LONG_MS, rebalance_ms=_SHORT_MS)
    request = group.join(
        instance="i-2", session_timeout_ms=_LONG_MS, rebalance_timeout_ms=_SHORT_MS
    )
    cluster.send(request, _JOIN, on="second")
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    until(cluster, heartbeat, _HEARTBEAT, _fails)
    again = group.join(first.member_id, session_timeout_ms=_LONG_MS, rebalance_timeout_ms=_SHORT_MS)
    first = cluster.probe(again, _JOIN)
    second = cluster.connection("second").receive()
    cluster.name_member(second.member_id, "the second")
    all_members = (first.member_id, second.member_id)
    cluster.ask(group.sync(first.member_id, first.generation_id, *all_members), _SYNC)
    back = cluster.ask(request, _JOIN, on="second")
    sync = group.sync(back.member_id, back.generation_id, instance="i-2")
    cluster.ask(sync, _SYNC, on="second")
    end = time.monotonic() + 2.5
    heartbeat = group.heartbeat(first.member_id, first.generation_id)
    codes = set()
    while time.monotonic() < end:
        codes.add(int(cluster.probe(heartbeat, _HEARTBEAT).error_code))
        time.sleep(_PAUSE_S)
    cluster.record("codes of heartbeats", [*sorted(codes)])


def a_member_with_a_rebalance_timeout_of_zero_is_removed_at_once(cluster: ScenarioCluster) -> None:
    for index, rebalance_ms in enumerate((0, -1, -(1 << 31))):
        name = f"{cluster.name}-{index}"
        wait_for_group_coordinator(cluster, name)
        group = Classic(name)
        request = group.join(rebalance_timeout_ms=rebalance_ms)
        joined = cluster.ask(request, _JOIN_WITHOUT_AN_ID)
        time.sleep(0.5)
        member, generation = joined.member_id, joined.generation_id
        cluster.ask(group.sync(member, generation, member), _SYNC)
        cluster.ask(group.heartbeat(member, generation), _HEARTBEAT)
        cluster.ask(DescribeGroupsRequest(groups=[name]), 5)


def a_waiting_join_replaces_heartbeats(cluster: ScenarioCluster) -> None:
    """Let a join wait for longer than a session, because of a pending third member id."""
    group = Classic(cluster.name)
    first = _member(cluster, group, session_ms=_LONG_MS, rebalance_ms=2_500)
    refused = cluster.ask(group.join(session_timeout_ms=2_000), _JOIN, on="third")
    begin = time.monotonic()
    again = cluster.ask(
        group.join(first.member_id, session_timeout_ms=_SHORT_MS, rebalance_timeout_ms=_LONG_MS),
        _JOIN,
    )
    cluster.record("it took longer than its session", time.monotonic() - begin > 1.5)
    cluster.ask(group.sync(again.member_id, again.generation_id, again.member_id), _SYNC)
    cluster.ask(group.join(refused.member_id), _JOIN, on="third")


def a_consumer_without_heartbeats_is_removed(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    key = "consumer.session.timeout.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "1000")), 1)
    settled(cluster, key, "1000", kind=GROUP)
    first = cluster.ask(group.join("a"), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(cluster, described, 1, lambda found: not found.groups[0].members)
    cluster.ask(group.heartbeat("a", first.member_epoch), 1)
    again = cluster.ask(group.join("a"), 1)
    cluster.record("a later epoch", again.member_epoch > first.member_epoch)


def a_static_consumer_may_be_away_for_a_session(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    key = "consumer.session.timeout.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "1500")), 1)
    settled(cluster, key, "1500", kind=GROUP)
    cluster.ask(group.join("a", instance_id="i-1"), 1)
    cluster.ask(group.heartbeat("a", -2, instance_id="i-1"), 1)
    time.sleep(0.5)
    cluster.ask(group.join("b", instance_id="i-1"), 1)
    cluster.ask(group.heartbeat("b", -2, instance_id="i-1"), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(cluster, described, 1, lambda found: not found.groups[0].members)
    cluster.ask(group.heartbeat("b", 3, instance_id="i-1"), 1)


def a_consumer_that_does_not_revoke_is_fenced(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    first = cluster.ask(group.join("a", rebalance_timeout_ms=_SHORT_MS), 1)
    second = cluster.ask(group.join("b"), 1)
    cluster.ask(group.heartbeat("a", first.member_epoch), 1)
    until(cluster, group.heartbeat("a", first.member_epoch), 1, _fails)
    cluster.ask(group.heartbeat("b", second.member_epoch), 1)
    again = cluster.ask(group.join("a"), 1)
    cluster.record("a later epoch", again.member_epoch > second.member_epoch)


WAITING = (
    a_member_without_heartbeats_is_removed,
    a_removed_member_causes_a_rebalance,
    heartbeats_extend_a_session,
    commits_extend_a_session,
    a_member_that_does_not_rejoin_in_time_is_removed,
    a_member_that_does_not_sync_in_time_is_removed,
    a_leader_that_does_not_assign_in_time_is_removed,
    an_unused_member_id_expires,
    an_unused_member_id_delays_a_rebalance,
    a_static_member_may_be_away_for_a_session,
    a_static_member_that_misses_a_rebalance_stays,
    a_static_member_that_returns_before_its_sync_causes_a_rebalance,
    a_member_with_a_rebalance_timeout_of_zero_is_removed_at_once,
    a_waiting_join_replaces_heartbeats,
    a_consumer_without_heartbeats_is_removed,
    a_static_consumer_may_be_away_for_a_session,
    a_consumer_that_does_not_revoke_is_fenced,
)
