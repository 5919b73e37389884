"""Groups on brokers with short timeouts: expired offsets, small groups, initial delays.

The brokers check for expired offsets several times a second (KIP-211). The minimum retention is a
minute, so offsets that should expire are committed in an old version, whose requests have a
retention time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit, fetch, fetch_all
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.scenarios.group_records import note_records
from tests.conformance.scenarios.group_waits import until
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tests.conformance.scenario_cluster import ScenarioCluster

INITIAL_DELAY_MS = 2_000
SHORT_TIMEOUTS: Mapping[str, str] = {
    "offsets.retention.check.interval.ms": "300",
    "offsets.retention.minutes": "1",
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "group.max.size": "2",
    "group.consumer.max.size": "2",
}
"""The additional settings of these brokers."""

_JOIN, _JOIN_WITHOUT_AN_ID, _SYNC, _HEARTBEAT, _LEAVE = 9, 3, 5, 4, 5
_LONG_MS = 30_000
_SEVERAL_SWEEPS_S = 1.2


def _commit_for(
    cluster: ScenarioCluster,
    group: str,
    topic: str,
    retention_ms: int,
    **claim: Any,  # noqa: ANN401
) -> None:
    """Commit by version 3 with a retention time."""
    request = commit(group, topic, 0, **claim)
    request.retention_time_ms = retention_ms
    cluster.ask(request, 3)


def _is_gone(found: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(found.topics[0].partitions[0].committed_offset < 0)


def _is_listed(cluster: ScenarioCluster, group: str) -> None:
    """Note whether a group exists."""
    found = cluster.probe(ListGroupsRequest(), 4)
    cluster.record(f"{group} is listed", group in [row.group_id for row in found.groups])


def _stable(cluster: ScenarioCluster, group: Classic, kind: str = "consumer") -> Any:  # noqa: ANN401
    wait_for_group_coordinator(cluster, group.group)
    joined = cluster.ask(group.join(kind=kind), _JOIN_WITHOUT_AN_ID)
    member, generation = joined.member_id, joined.generation_id
    cluster.ask(group.sync(member, generation, member, kind=kind), _SYNC)
    return joined


def _wait_for_members(cluster: ScenarioCluster, group: str, count: int) -> None:
    """Wait until the group has `count` members; their joins may still be pending."""
    described = DescribeGroupsRequest(groups=[group])
    cluster.call_until(
        described, 5, lambda found: len(found.groups[0].members) == count, is_recorded=False
    )


def an_expired_offset_removes_its_empty_group(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for retention_ms in (0, 100, 1):
        _commit_for(cluster, cluster.name, cluster.name, retention_ms)
        until(cluster, fetch(cluster.name, cluster.name, 0), 7, _is_gone)
        _is_listed(cluster, cluster.name)
        cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    note_records(cluster, cluster.name)


def unexpired_offsets_remain(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    create_topic(cluster, f"{cluster.name}-other")
    wait_for_group_coordinator(cluster, cluster.name)
    _commit_for(cluster, cluster.name, cluster.name, 3_600_000)
    _commit_for(cluster, cluster.name, f"{cluster.name}-other", 1)
    until(cluster, fetch(cluster.name, f"{cluster.name}-other", 0), 7, _is_gone)
    cluster.ask(fetch_all(cluster.name), 7)
    _is_listed(cluster, cluster.name)


def a_new_commit_removes_the_custom_retention(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    _commit_for(cluster, cluster.name, cluster.name, 1_000)
    cluster.ask(commit(cluster.name, cluster.name, 0, offset=9), 8)
    time.sleep(1 + _SEVERAL_SWEEPS_S)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 7)


def overflowing_retentions_expire_at_once(cluster: ScenarioCluster) -> None:
    """Commit with the largest retention time: as in Java, the sum overflows to a past time."""
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for retention_ms in ((1 << 63) - 1, -2, -(1 << 63)):
        _commit_for(cluster, cluster.name, cluster.name, retention_ms)
        until(cluster, fetch(cluster.name, cluster.name, 0), 7, _is_gone)


def more_offsets_than_a_batch_can_expire_together(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=40)
    group = cluster.name + "x" * 30_000
    wait_for_group_coordinator(cluster, group)
    for half in (range(20), range(20, 40)):
        request = commit(group, cluster.name, *half)
        request.retention_time_ms = 1_500
        cluster.ask(request, 3)
    until(cluster, fetch(group, cluster.name, 39), 7, _is_gone)
    until(cluster, fetch(group, cluster.name, 0), 7, _is_gone)


def offsets_of_subscribed_topics_do_not_expire(cluster: ScenarioCluster) -> None:
    mine, other = f"{cluster.name}-mine", f"{cluster.name}-other"
    create_topic(cluster, mine)
    create_topic(cluster, other)
    group = Classic(cluster.name, mine)
    joined = _stable(cluster, group)
    claim = {"member_id": joined.member_id, "epoch": joined.generation_id}
    _commit_for(cluster, cluster.name, mine, 1, **claim)
    _commit_for(cluster, cluster.name, other, 1, **claim)
    until(cluster, fetch(cluster.name, other, 0), 7, _is_gone)
    time.sleep(_SEVERAL_SWEEPS_S)
    cluster.ask(fetch(cluster.name, mine, 0), 7)
    cluster.ask(group.leave(joined.member_id), _LEAVE)
    until(cluster, fetch(cluster.name, mine, 0), 7, _is_gone)
    _is_listed(cluster, cluster.name)
    note_records(cluster, cluster.name)


def offsets_of_other_protocol_types_do_not_expire_with_members(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group = Classic(cluster.name)
    joined = _stable(cluster, group, kind="connect")
    claim = {"member_id": joined.member_id, "epoch": joined.generation_id}
    _commit_for(cluster, cluster.name, cluster.name, 1, **claim)
    time.sleep(_SEVERAL_SWEEPS_S)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 7)
    cluster.ask(group.leave(joined.member_id), _LEAVE)
    until(cluster, fetch(cluster.name, cluster.name, 0), 7, _is_gone)


def offsets_do_not_expire_during_a_rebalance(cluster: ScenarioCluster) -> None:
    topic, other = f"{cluster.name}-mine", f"{cluster.name}-other"
    create_topic(cluster, topic)
    create_topic(cluster, other)
    group = Classic(cluster.name, topic)
    joined = _stable(cluster, group)
    member, generation = joined.member_id, joined.generation_id
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID, on="second")
    until(cluster, group.heartbeat(member, generation), _HEARTBEAT, lambda found: found.error_code)
    _commit_for(cluster, cluster.name, other, 1, member_id=member, epoch=generation)
    time.sleep(_SEVERAL_SWEEPS_S)
    cluster.ask(fetch(cluster.name, other, 0), 7)
    again = cluster.ask(group.join(member), _JOIN)
    second = cluster.receive("second", title="the join of the second")
    time.sleep(_SEVERAL_SWEEPS_S)
    cluster.ask(fetch(cluster.name, other, 0), 7)
    all_members = (member, second.member_id)
    cluster.ask(group.sync(member, again.generation_id, *all_members), _SYNC)
    until(cluster, fetch(cluster.name, other, 0), 7, _is_gone)


def an_empty_group_without_offsets_is_removed_at_once(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    joined = _stable(cluster, group)
    time.sleep(_SEVERAL_SWEEPS_S)
    _is_listed(cluster, cluster.name)
    cluster.ask(group.leave(joined.member_id), _LEAVE)
    described = DescribeGroupsRequest(groups=[cluster.name])
    until(cluster, described, 6, lambda found: found.groups[0].error_code)
    cluster.ask(group.join(joined.member_id), _JOIN)
    note_records(cluster, cluster.name)


def a_pending_member_id_does_not_retain_a_group(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(), _JOIN)
    # Kafka returns the member id before the group is visible, so do not wait for its removal yet.
    time.sleep(_SEVERAL_SWEEPS_S)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    cluster.ask(group.join(refused.member_id), _JOIN)


def a_consumer_group_without_offsets_is_removed_at_once(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(group.join("a"), 1)
    time.sleep(_SEVERAL_SWEEPS_S)
    _is_listed(cluster, group.group)
    cluster.ask(group.heartbeat("a", -1), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(cluster, described, 1, lambda found: found.groups[0].error_code)


def offsets_of_a_consumer_group_have_custom_retentions(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    other = f"{cluster.name}-other"
    create_topic(cluster, other)
    _commit_for(cluster, group.group, group.topic, 1_500)
    _commit_for(cluster, group.group, other, 1_500)
    cluster.ask(group.join("a"), 1)
    until(cluster, fetch(group.group, other, 0), 7, _is_gone)
    cluster.ask(fetch(group.group, group.topic, 0), 7)
    cluster.ask(group.heartbeat("a", -1), 1)
    until(cluster, fetch(group.group, group.topic, 0), 7, _is_gone)
    _is_listed(cluster, group.group)
    note_records(cluster, group.group)


def members_joining_in_the_initial_delay_form_one_generation(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    begin = time.monotonic()
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID)
    time.sleep(0.5)
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID, on="second")
    first = cluster.receive(title="the join of the first")
    second = cluster.receive("second", title="the join of the second")
    took = time.monotonic() - begin
    cluster.record("both delays were waited for", took > 1.8 * INITIAL_DELAY_MS / 1000)
    cluster.record("one generation", first.generation_id == second.generation_id == 1)


def the_initial_delay_is_limited_by_the_rebalance_timeout(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    begin = time.monotonic()
    cluster.send(group.join(rebalance_timeout_ms=2_500), _JOIN_WITHOUT_AN_ID)
    time.sleep(0.5)
    cluster.send(group.join(rebalance_timeout_ms=2_500), _JOIN_WITHOUT_AN_ID, on="second")
    cluster.receive(title="the join of the first")
    cluster.receive("second", title="the join of the second")
    took = time.monotonic() - begin
    cluster.record("the timeout was waited for", 2.3 < took < 3.6)


def an_expired_member_id_ends_the_initial_delay(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    begin = time.monotonic()
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(cluster, cluster.name, 1)
    cluster.ask(group.join(session_timeout_ms=1_000), _JOIN, on="second")
    cluster.receive(title="the join of the first")
    took = time.monotonic() - begin
    cluster.record("it was there before the delay ended", took < 0.9 * INITIAL_DELAY_MS / 1000)


def a_leaving_member_does_not_end_the_initial_delay(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    begin = time.monotonic()
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(cluster, cluster.name, 1)
    cluster.send(group.join(instance="i-1"), _JOIN, on="second")
    _wait_for_members(cluster, cluster.name, 2)
    identity = LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="i-1")
    cluster.ask(LeaveGroupRequest(group_id=cluster.name, members=[identity]), _LEAVE, on="third")
    cluster.receive("second", title="the join of the refused member")
    first = cluster.receive(title="the join of the first")
    took = time.monotonic() - begin
    cluster.record("members", len(first.members))
    cluster.record("the delay was waited for", took > 0.9 * INITIAL_DELAY_MS / 1000)


def a_full_classic_group_accepts_no_member(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    pending = cluster.ask(group.join(), _JOIN, on="third").member_id
    cluster.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(cluster, cluster.name, 1)
    cluster.send(group.join(instance="i-2"), _JOIN, on="second")
    _wait_for_members(cluster, cluster.name, 2)
    # Pending member ids do not count, waiting members do.
    cluster.ask(group.join(), _JOIN_WITHOUT_AN_ID, on="fourth")
    cluster.ask(group.join(pending), _JOIN, on="third")
    first = cluster.receive(title="the join of the first")
    second = cluster.receive("second", title="the join of the second")
    for version in (3, 5, 9):
        cluster.ask(group.join(), version, on="fourth")
        cluster.ask(group.join("unknown"), version, on="fourth")
    cluster.ask(group.join(instance="i-4"), _JOIN, on="fourth")
    cluster.ask(group.join(first.member_id), _JOIN)
    cluster.ask(group.join(second.member_id, instance="i-2"), _JOIN, on="second")
    all_members = (first.member_id, second.member_id)
    leader = first if first.leader == first.member_id else second
    instance = "i-2" if leader is second else None
    cluster.ask(
        group.sync(leader.member_id, leader.generation_id, *all_members, instance=instance), _SYNC
    )
    cluster.ask(group.join(), _JOIN, on="fourth")
    cluster.send(group.join(instance="i-2"), _JOIN, on="again")
    cluster.receive("again", title="the join of the instance once more")


def a_full_consumer_group_accepts_no_member(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    for member in ("a", "b", "c"):
        cluster.ask(group.join(member), 1)
    cluster.ask(group.join("a"), 1)
    cluster.ask(group.join("c", instance_id="i-1"), 1)
    cluster.ask(group.heartbeat("b", -1), 1)
    cluster.ask(group.join("c", instance_id="i-1"), 1)


WAITING = (
    an_expired_offset_removes_its_empty_group,
    unexpired_offsets_remain,
    a_new_commit_removes_the_custom_retention,
    overflowing_retentions_expire_at_once,
    more_offsets_than_a_batch_can_expire_together,
    offsets_of_subscribed_topics_do_not_expire,
    offsets_of_other_protocol_types_do_not_expire_with_members,
    offsets_do_not_expire_during_a_rebalance,
    an_empty_group_without_offsets_is_removed_at_once,
    a_pending_member_id_does_not_retain_a_group,
    a_consumer_group_without_offsets_is_removed_at_once,
    offsets_of_a_consumer_group_have_custom_retentions,
    members_joining_in_the_initial_delay_form_one_generation,
    the_initial_delay_is_limited_by_the_rebalance_timeout,
    an_expired_member_id_ends_the_initial_delay,
    a_leaving_member_does_not_end_the_initial_delay,
    a_full_classic_group_accepts_no_member,
    a_full_consumer_group_accepts_no_member,
)
