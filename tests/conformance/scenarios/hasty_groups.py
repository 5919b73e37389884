"""Groups on brokers in haste: offsets expire, groups are small, a first rebalance waits a while.

The brokers look for expired offsets several times a second (KIP-211). A retention shorter than a
minute is not to be had, so what shall expire was committed by an old client that says how long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkalite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit, fetch, fetch_all
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.scenarios.group_records import note_records
from tests.conformance.scenarios.group_waits import until
from tests.conformance.setup import create_topic, ready_group

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tests.conformance.world import World

INITIAL_DELAY_MS = 2_000
HASTE: Mapping[str, str] = {
    "offsets.retention.check.interval.ms": "300",
    "offsets.retention.minutes": "1",
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "group.max.size": "2",
    "group.consumer.max.size": "2",
}
"""What these brokers are told beyond what the others are."""

_JOIN, _JOIN_WITHOUT_AN_ID, _SYNC, _HEARTBEAT, _LEAVE = 9, 3, 5, 4, 5
_LONG_MS = 30_000
_SEVERAL_SWEEPS_S = 1.2


def _commit_for(world: World, group: str, topic: str, retention_ms: int, **claim: Any) -> None:  # noqa: ANN401
    """Commit as a client of version 3 that says how long its offset is to last."""
    request = commit(group, topic, 0, **claim)
    request.retention_time_ms = retention_ms
    world.ask(request, 3)


def _is_gone(found: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(found.topics[0].partitions[0].committed_offset < 0)


def _is_listed(world: World, group: str) -> None:
    """Note whether a group is still there."""
    found = world.probe(ListGroupsRequest(), 4)
    world.note(f"{group} is listed", group in [row.group_id for row in found.groups])


def _stable(world: World, group: Classic, kind: str = "consumer") -> Any:  # noqa: ANN401
    ready_group(world, group.group)
    joined = world.ask(group.join(kind=kind), _JOIN_WITHOUT_AN_ID)
    member, generation = joined.member_id, joined.generation_id
    world.ask(group.sync(member, generation, member, kind=kind), _SYNC)
    return joined


def _wait_for_members(world: World, group: str, count: int) -> None:
    """Wait until so many members are in, whether or not they have been answered."""
    described = DescribeGroupsRequest(groups=[group])
    world.settle(described, 5, lambda found: len(found.groups[0].members) == count, note=False)


def an_own_retention_ends_and_the_group_with_it(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    for retention_ms in (0, 100, 1):
        _commit_for(world, world.name, world.name, retention_ms)
        until(world, fetch(world.name, world.name, 0), 7, _is_gone)
        _is_listed(world, world.name)
        world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    note_records(world, world.name)


def what_has_time_left_stays(world: World) -> None:
    create_topic(world, world.name)
    create_topic(world, f"{world.name}-other")
    ready_group(world, world.name)
    _commit_for(world, world.name, world.name, 3_600_000)
    _commit_for(world, world.name, f"{world.name}-other", 1)
    until(world, fetch(world.name, f"{world.name}-other", 0), 7, _is_gone)
    world.ask(fetch_all(world.name), 7)
    _is_listed(world, world.name)


def a_new_commit_takes_the_own_retention_back(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    _commit_for(world, world.name, world.name, 1_000)
    world.ask(commit(world.name, world.name, 0, offset=9), 8)
    time.sleep(1 + _SEVERAL_SWEEPS_S)
    world.ask(fetch(world.name, world.name, 0), 7)


def retentions_that_overflow_are_none(world: World) -> None:
    """Add the longest of retentions to a time as Java does, and it lies in the past."""
    create_topic(world, world.name)
    ready_group(world, world.name)
    for retention_ms in ((1 << 63) - 1, -2, -(1 << 63)):
        _commit_for(world, world.name, world.name, retention_ms)
        until(world, fetch(world.name, world.name, 0), 7, _is_gone)


def what_expires_together_may_be_more_than_a_batch(world: World) -> None:
    create_topic(world, world.name, partitions=40)
    group = world.name + "x" * 30_000
    ready_group(world, group)
    for half in (range(20), range(20, 40)):
        request = commit(group, world.name, *half)
        request.retention_time_ms = 1_500
        world.ask(request, 3)
    until(world, fetch(group, world.name, 39), 7, _is_gone)
    until(world, fetch(group, world.name, 0), 7, _is_gone)


def offsets_of_topics_that_members_read_stay(world: World) -> None:
    mine, other = f"{world.name}-mine", f"{world.name}-other"
    create_topic(world, mine)
    create_topic(world, other)
    group = Classic(world.name, mine)
    joined = _stable(world, group)
    claim = {"member_id": joined.member_id, "epoch": joined.generation_id}
    _commit_for(world, world.name, mine, 1, **claim)
    _commit_for(world, world.name, other, 1, **claim)
    until(world, fetch(world.name, other, 0), 7, _is_gone)
    time.sleep(_SEVERAL_SWEEPS_S)
    world.ask(fetch(world.name, mine, 0), 7)
    world.ask(group.leave(joined.member_id), _LEAVE)
    until(world, fetch(world.name, mine, 0), 7, _is_gone)
    _is_listed(world, world.name)
    note_records(world, world.name)


def a_group_that_is_no_consumer_loses_nothing_while_it_has_members(world: World) -> None:
    create_topic(world, world.name)
    group = Classic(world.name)
    joined = _stable(world, group, kind="connect")
    claim = {"member_id": joined.member_id, "epoch": joined.generation_id}
    _commit_for(world, world.name, world.name, 1, **claim)
    time.sleep(_SEVERAL_SWEEPS_S)
    world.ask(fetch(world.name, world.name, 0), 7)
    world.ask(group.leave(joined.member_id), _LEAVE)
    until(world, fetch(world.name, world.name, 0), 7, _is_gone)


def nothing_expires_in_the_middle_of_a_rebalance(world: World) -> None:
    topic, other = f"{world.name}-mine", f"{world.name}-other"
    create_topic(world, topic)
    create_topic(world, other)
    group = Classic(world.name, topic)
    joined = _stable(world, group)
    member, generation = joined.member_id, joined.generation_id
    world.send(group.join(), _JOIN_WITHOUT_AN_ID, on="second")
    until(world, group.heartbeat(member, generation), _HEARTBEAT, lambda found: found.error_code)
    _commit_for(world, world.name, other, 1, member_id=member, epoch=generation)
    time.sleep(_SEVERAL_SWEEPS_S)
    world.ask(fetch(world.name, other, 0), 7)
    again = world.ask(group.join(member), _JOIN)
    second = world.hear("second", asked="the join of the second")
    time.sleep(_SEVERAL_SWEEPS_S)
    world.ask(fetch(world.name, other, 0), 7)
    everybody = (member, second.member_id)
    world.ask(group.sync(member, again.generation_id, *everybody), _SYNC)
    until(world, fetch(world.name, other, 0), 7, _is_gone)


def an_empty_group_without_offsets_goes_at_once(world: World) -> None:
    group = Classic(world.name)
    joined = _stable(world, group)
    time.sleep(_SEVERAL_SWEEPS_S)
    _is_listed(world, world.name)
    world.ask(group.leave(joined.member_id), _LEAVE)
    described = DescribeGroupsRequest(groups=[world.name])
    until(world, described, 6, lambda found: found.groups[0].error_code)
    world.ask(group.join(joined.member_id), _JOIN)
    note_records(world, world.name)


def an_id_that_was_given_out_does_not_keep_a_group(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(), _JOIN)
    # Kafka gives the id before others can see the group, so to look for its end would be too early.
    time.sleep(_SEVERAL_SWEEPS_S)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    world.ask(group.join(refused.member_id), _JOIN)


def a_consumer_group_without_offsets_goes_at_once(world: World) -> None:
    group = new_group(world)
    world.ask(group.join("a"), 1)
    time.sleep(_SEVERAL_SWEEPS_S)
    _is_listed(world, group.group)
    world.ask(group.heartbeat("a", -1), 1)
    described = ConsumerGroupDescribeRequest(group_ids=[group.group])
    until(world, described, 1, lambda found: found.groups[0].error_code)


def offsets_of_a_consumer_group_go_by_their_own_retention_too(world: World) -> None:
    group = new_group(world)
    other = f"{world.name}-other"
    create_topic(world, other)
    _commit_for(world, group.group, group.topic, 1_500)
    _commit_for(world, group.group, other, 1_500)
    world.ask(group.join("a"), 1)
    until(world, fetch(group.group, other, 0), 7, _is_gone)
    world.ask(fetch(group.group, group.topic, 0), 7)
    world.ask(group.heartbeat("a", -1), 1)
    until(world, fetch(group.group, group.topic, 0), 7, _is_gone)
    _is_listed(world, group.group)
    note_records(world, group.group)


def members_that_come_in_the_first_delay_form_one_generation(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    begin = time.monotonic()
    world.send(group.join(), _JOIN_WITHOUT_AN_ID)
    time.sleep(0.5)
    world.send(group.join(), _JOIN_WITHOUT_AN_ID, on="second")
    first = world.hear(asked="the join of the first")
    second = world.hear("second", asked="the join of the second")
    took = time.monotonic() - begin
    world.note("both delays were waited for", took > 1.8 * INITIAL_DELAY_MS / 1000)
    world.note("one generation", first.generation_id == second.generation_id == 1)


def a_first_delay_is_no_longer_than_the_rebalance_timeout(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    begin = time.monotonic()
    world.send(group.join(rebalance_timeout_ms=2_500), _JOIN_WITHOUT_AN_ID)
    time.sleep(0.5)
    world.send(group.join(rebalance_timeout_ms=2_500), _JOIN_WITHOUT_AN_ID, on="second")
    world.hear(asked="the join of the first")
    world.hear("second", asked="the join of the second")
    took = time.monotonic() - begin
    world.note("the timeout was waited for", 2.3 < took < 3.6)


def an_id_that_expires_ends_the_first_delay(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    begin = time.monotonic()
    world.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(world, world.name, 1)
    world.ask(group.join(session_timeout_ms=1_000), _JOIN, on="second")
    world.hear(asked="the join of the first")
    took = time.monotonic() - begin
    world.note("it was there before the delay ended", took < 0.9 * INITIAL_DELAY_MS / 1000)


def a_member_that_leaves_does_not_end_the_first_delay(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    begin = time.monotonic()
    world.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(world, world.name, 1)
    world.send(group.join(instance="i-1"), _JOIN, on="second")
    _wait_for_members(world, world.name, 2)
    identity = LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="i-1")
    world.ask(LeaveGroupRequest(group_id=world.name, members=[identity]), _LEAVE, on="third")
    world.hear("second", asked="the join of who was sent away")
    first = world.hear(asked="the join of the first")
    took = time.monotonic() - begin
    world.note("members", len(first.members))
    world.note("the delay was waited for", took > 0.9 * INITIAL_DELAY_MS / 1000)


def a_full_classic_group_takes_nobody_in(world: World) -> None:
    ready_group(world, world.name)
    group = Classic(world.name)
    pending = world.ask(group.join(), _JOIN, on="third").member_id
    world.send(group.join(), _JOIN_WITHOUT_AN_ID)
    _wait_for_members(world, world.name, 1)
    world.send(group.join(instance="i-2"), _JOIN, on="second")
    _wait_for_members(world, world.name, 2)
    # Ids that were given out do not count, members that wait do.
    world.ask(group.join(), _JOIN_WITHOUT_AN_ID, on="fourth")
    world.ask(group.join(pending), _JOIN, on="third")
    first = world.hear(asked="the join of the first")
    second = world.hear("second", asked="the join of the second")
    for version in (3, 5, 9):
        world.ask(group.join(), version, on="fourth")
        world.ask(group.join("nobody"), version, on="fourth")
    world.ask(group.join(instance="i-4"), _JOIN, on="fourth")
    world.ask(group.join(first.member_id), _JOIN)
    world.ask(group.join(second.member_id, instance="i-2"), _JOIN, on="second")
    everybody = (first.member_id, second.member_id)
    leader = first if first.leader == first.member_id else second
    instance = "i-2" if leader is second else None
    world.ask(
        group.sync(leader.member_id, leader.generation_id, *everybody, instance=instance), _SYNC
    )
    world.ask(group.join(), _JOIN, on="fourth")
    world.send(group.join(instance="i-2"), _JOIN, on="again")
    world.hear("again", asked="the join of the instance once more")


def a_full_consumer_group_takes_nobody_in(world: World) -> None:
    group = new_group(world)
    for member in ("a", "b", "c"):
        world.ask(group.join(member), 1)
    world.ask(group.join("a"), 1)
    world.ask(group.join("c", instance_id="i-1"), 1)
    world.ask(group.heartbeat("b", -1), 1)
    world.ask(group.join("c", instance_id="i-1"), 1)


WAITING = (
    an_own_retention_ends_and_the_group_with_it,
    what_has_time_left_stays,
    a_new_commit_takes_the_own_retention_back,
    retentions_that_overflow_are_none,
    what_expires_together_may_be_more_than_a_batch,
    offsets_of_topics_that_members_read_stay,
    a_group_that_is_no_consumer_loses_nothing_while_it_has_members,
    nothing_expires_in_the_middle_of_a_rebalance,
    an_empty_group_without_offsets_goes_at_once,
    an_id_that_was_given_out_does_not_keep_a_group,
    a_consumer_group_without_offsets_goes_at_once,
    offsets_of_a_consumer_group_go_by_their_own_retention_too,
    members_that_come_in_the_first_delay_form_one_generation,
    a_first_delay_is_no_longer_than_the_rebalance_timeout,
    an_id_that_expires_ends_the_first_delay,
    a_member_that_leaves_does_not_end_the_first_delay,
    a_full_classic_group_takes_nobody_in,
    a_full_consumer_group_takes_nobody_in,
)
