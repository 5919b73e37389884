"""Details of classic groups: votes, repeated and changed joins, leaves, invalid input."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from tests.conformance.scenarios.classic_groups import Classic, new_member, stable_group
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.world import World

_JOIN, _SYNC, _HEARTBEAT, _LEAVE = 9, 5, 4, 5
_JOIN_WITHOUT_AN_ID = 3
_MEGABYTE = 1 << 20


def wait_until_it_rebalances(world: World, group: Classic, member: str, generation: int) -> None:
    """Wait until a member learns of a rebalance that another member started."""
    world.call_until(
        group.heartbeat(member, generation), _HEARTBEAT, lambda found: found.error_code != 0
    )


def pair(world: World, group: Classic, *, instances: Sequence[str | None] = (None, None)) -> Any:  # noqa: ANN401
    """Create a generation of two members without assignment; return their answers."""
    wait_for_group_coordinator(world, group.group)
    first = world.probe(group.join(instance=instances[0]), _JOIN_WITHOUT_AN_ID + 2)
    if first.generation_id < 0:
        first = world.probe(group.join(first.member_id), _JOIN)
    world.probe(_synced(group, first, instance=instances[0]), _SYNC)
    second_id = ""
    if instances[1] is None:
        second_id = world.connection("second").call(group.join(), _JOIN).member_id
    world.connection("second").send(group.join(second_id, instance=instances[1]), _JOIN)
    heartbeat = group.heartbeat(first.member_id, first.generation_id, instances[0])
    world.call_until(heartbeat, _HEARTBEAT, lambda found: found.error_code != 0, is_recorded=False)
    first = world.probe(group.join(first.member_id, instance=instances[0]), _JOIN)
    second = world.connection("second").receive()
    world.name_member(first.member_id, "the first")
    world.name_member(second.member_id, "the second")
    return first, second


def _synced(group: Classic, joined: Any, *members: str, instance: str | None = None) -> Any:  # noqa: ANN401
    return group.sync(
        joined.member_id, joined.generation_id, *(members or (joined.member_id,)), instance=instance
    )


def the_protocol_with_most_votes_is_selected(world: World) -> None:
    """Count votes for protocols; ties are broken by the order of Kafka's hash map."""
    for index, (one, other) in enumerate(
        (
            (("range", "sticky"), ("sticky", "range")),
            (("range", "roundrobin"), ("roundrobin", "range")),
            (("range", "cooperative-sticky"), ("cooperative-sticky", "range")),
            (("b", "a", "c"), ("c", "a", "b")),
            (("a", "b"), ("a", "b", "c")),
        )
    ):
        name = f"{world.name}-{index}"
        wait_for_group_coordinator(world, name)
        group = Classic(name)
        first = world.ask(group.join("", *one), _JOIN_WITHOUT_AN_ID)
        second = f"second-{index}"
        world.send(group.join("", *other), _JOIN_WITHOUT_AN_ID, on=second)
        wait_until_it_rebalances(world, group, first.member_id, first.generation_id)
        again = world.ask(group.join(first.member_id, *one), _JOIN)
        received = world.receive(second, title="the other's join")
        world.record("chosen", [str(again.protocol_name), str(received.protocol_name)])


def only_protocols_supported_by_all_are_selected(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    first = world.ask(group.join("", "range", "sticky"), _JOIN_WITHOUT_AN_ID)
    world.send(group.join("", "own", "sticky"), _JOIN_WITHOUT_AN_ID, on="second")
    wait_until_it_rebalances(world, group, first.member_id, first.generation_id)
    world.ask(group.join("", "range"), _JOIN_WITHOUT_AN_ID, on="third")
    world.ask(group.join("", "own"), _JOIN, on="third")
    world.ask(group.join(first.member_id, "range"), _JOIN)
    world.ask(group.join(first.member_id, "range", "sticky"), _JOIN)
    world.receive("second", title="the join of the second")


def joins_are_repeated_before_the_assignment(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group)
    for version in (2, 5, 9):
        world.ask(group.join(first.member_id), version)
        world.ask(group.join(second.member_id), version, on="second")
    world.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)
    world.send(group.join(second.member_id, "range", "sticky"), _JOIN, on="second")
    wait_until_it_rebalances(world, group, first.member_id, first.generation_id)
    world.ask(_synced(group, first), _SYNC)
    world.ask(group.join(first.member_id), _JOIN)
    world.receive("second", title="the changed join")


def waiting_syncs_get_rebalance_in_progress(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group)
    world.send(_synced(group, second), _SYNC, on="second")
    refused = world.ask(group.join(), _JOIN, on="third")
    world.send(group.join(refused.member_id), _JOIN, on="third")
    world.receive("second", title="the sync of the second")
    world.ask(_synced(group, first), _SYNC)
    world.send(group.join(second.member_id), _JOIN, on="second")
    world.ask(group.join(first.member_id), _JOIN)
    world.receive("second", title="the join of the second")
    world.receive("third", title="the join of the third")


def a_leader_may_assign_any_bytes(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group)
    world.send(_synced(group, second), _SYNC, on="second")
    world.ask(_synced(group, first, "an unknown member", first.member_id), _SYNC)
    world.receive("second", title="the sync of the member without an assignment")
    for version in range(6):
        world.ask(_synced(group, second, "ignored"), version, on="second")
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)


def followers_may_join_a_stable_group_again(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group)
    world.send(_synced(group, second), _SYNC, on="second")
    world.ask(_synced(group, first, first.member_id, second.member_id), _SYNC)
    world.receive("second", title="the sync of the second")
    for version in (0, 5, 9):
        world.ask(group.join(second.member_id), version, on="second")
    world.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    world.send(group.join(first.member_id), _JOIN)
    wait_until_it_rebalances(world, group, second.member_id, second.generation_id)
    world.ask(group.join(second.member_id), _JOIN, on="second")
    world.receive(title="the join of the leader")


def another_member_becomes_leader_after_a_leave(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group)
    world.send(_synced(group, second), _SYNC, on="second")
    world.ask(group.leave(first.member_id), _LEAVE)
    world.receive("second", title="the sync of the second")
    world.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    world.ask(_synced(group, second), _SYNC, on="second")
    alone = world.ask(group.join(second.member_id), _JOIN, on="second")
    world.ask(_synced(group, alone), _SYNC, on="second")
    world.ask(group.heartbeat(first.member_id, alone.generation_id), _HEARTBEAT)
    world.ask(group.leave(second.member_id), _LEAVE)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)


def members_of_every_kind_leave_together(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group, instances=("i-1", "i-2"))
    pending = world.ask(group.join(), _JOIN, on="third").member_id
    identity = LeaveGroupRequest.MemberIdentity
    batch = LeaveGroupRequest(
        group_id=world.name,
        members=[
            identity(member_id="", group_instance_id="i-1"),
            identity(member_id="", group_instance_id="i-1"),
            identity(member_id="", group_instance_id="i-9"),
            identity(member_id="", group_instance_id=None),
            identity(member_id=pending, group_instance_id=None, reason="of its own"),
            identity(member_id=first.member_id, group_instance_id="i-2"),
            identity(member_id=second.member_id, group_instance_id="i-9"),
            identity(member_id="unknown", group_instance_id=None),
        ],
    )
    world.ask(batch, _LEAVE)
    world.ask(group.heartbeat(second.member_id, second.generation_id, "i-2"), _HEARTBEAT)
    world.ask(LeaveGroupRequest(group_id=world.name, members=[]), _LEAVE)
    world.ask(batch, 3)


def static_members_return_during_a_rebalance(world: World) -> None:
    group = Classic(world.name)
    first, second = pair(world, group, instances=("i-1", "i-2"))
    world.send(_synced(group, second, instance="i-2"), _SYNC, on="second")
    world.send(group.join(instance="i-2"), _JOIN, on="again")
    world.receive("second", title="the sync of the old id")
    heartbeat = group.heartbeat(first.member_id, first.generation_id, "i-1")
    world.call_until(heartbeat, _HEARTBEAT, lambda found: found.error_code != 0)
    world.ask(group.heartbeat(second.member_id, second.generation_id, "i-2"), _HEARTBEAT)
    world.send(group.join(instance="i-2"), _JOIN, on="a third time")
    world.receive("again", title="the join of the second id")
    world.ask(group.join(first.member_id, instance="i-1"), _JOIN)
    world.receive("a third time", title="the join of the third id")


def instance_ids_are_returned_since_version_5(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(instance="i-1"), 4)
    world.ask(group.join(refused.member_id, instance="i-1"), _JOIN)
    first = world.ask(group.join(refused.member_id), 4)
    world.send(group.join(instance=""), 5, on="second")
    wait_until_it_rebalances(world, group, first.member_id, first.generation_id)
    world.ask(group.join(first.member_id), 4)
    world.receive("second", title="the join of an instance without a name")


def pending_ids_belong_to_members_without_an_instance(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(), _JOIN)
    world.ask(group.join(refused.member_id, instance="i-1"), _JOIN)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    world.ask(DeleteGroupsRequest(groups_names=[world.name]), 2)
    world.ask(group.join(refused.member_id), _JOIN)


def _forget(group: str, *topics: str) -> OffsetDeleteRequest:
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic, partitions=[row(partition_index=0)]
            )
            for topic in topics
        ],
    )


def invalid_subscriptions_are_accepted(world: World) -> None:
    """Unreadable subscriptions are accepted; then no offset of the group can be deleted.

    `test_known_differences` has subscriptions with wrong lengths.
    """
    create_topic(world, world.name)
    garbage = (
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"\0\0\0\0\0\x02\0\1a",
        b"\0\0\0\0\0\0",
        b"\xff\xff\0\0\0\0\0\0\0\0",
        b"\x7f\xff\0\0\0\0\xff\xff\xff\xff",
    )
    for index, metadata in enumerate(garbage):
        name = f"{world.name}-{index}"
        wait_for_group_coordinator(world, name)
        group = Classic(name)
        world.ask(commit(name, world.name, 0), 8)
        joined = world.ask(group.join("", metadata=metadata), _JOIN_WITHOUT_AN_ID)
        world.ask(_synced(group, joined), _SYNC)
        world.ask(_forget(name, world.name), 0)
        named = commit(name, world.name, 0, member_id=joined.member_id, epoch=joined.generation_id)
        world.ask(named, 8)
        world.ask(group.leave(joined.member_id), _LEAVE)
        world.ask(_forget(name, world.name), 0)


def subscribed_topics_are_fixed_per_generation(world: World) -> None:
    first_topic, second_topic = f"{world.name}-a", f"{world.name}-b"
    create_topic(world, first_topic)
    create_topic(world, second_topic)
    group, member, generation = stable_group(world, world.name, first_topic)
    world.ask(_forget(world.name, first_topic, second_topic), 0)
    other = Classic(world.name, second_topic)
    world.send(other.join(member), _JOIN)
    world.probe(group.heartbeat("unknown", generation), _HEARTBEAT)
    moved = world.receive(title="the join with another topic")
    world.ask(_forget(world.name, first_topic, second_topic), 0)
    refused = world.ask(group.join(), _JOIN, on="second")
    world.send(group.join(refused.member_id), _JOIN, on="second")
    wait_until_it_rebalances(world, group, member, moved.generation_id)
    world.ask(_forget(world.name, first_topic, second_topic), 0)
    world.ask(other.join(member), _JOIN)
    world.receive("second", title="the join of the second")
    world.ask(_forget(world.name, first_topic, second_topic), 0)


def groups_of_other_protocol_types_protect_their_offsets(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    world.ask(commit(world.name, world.name, 0), 8)
    joined = new_member(world, group, kind="connect")
    world.ask(group.sync(joined.member_id, 1, joined.member_id, kind="connect"), _SYNC)
    world.ask(_forget(world.name, world.name), 0)
    world.ask(DeleteGroupsRequest(groups_names=[world.name]), 2)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)
    world.ask(group.leave(joined.member_id), _LEAVE)
    world.ask(_forget(world.name, world.name), 0)
    world.ask(fetch(world.name, world.name, 0), 8)


def an_assignment_may_be_too_large(world: World) -> None:
    """Refuse an assignment that cannot be recorded; the members rejoin."""
    group = Classic(world.name)
    first, second = pair(world, group)
    world.send(_synced(group, second), _SYNC, on="second")
    large = _synced(group, first)
    large.assignments[0].assignment = bytes(2 * _MEGABYTE)
    world.ask(large, _SYNC)
    world.receive("second", title="the sync of the second")
    world.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    world.send(group.join(second.member_id), _JOIN, on="second")
    again = world.ask(group.join(first.member_id), _JOIN)
    world.receive("second", title="the join of the second")
    world.record("the next generation", again.generation_id == first.generation_id + 1)
    world.ask(_synced(group, again, first.member_id, second.member_id), _SYNC)


def large_subscriptions_are_refused_when_they_are_recorded(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    joined = world.ask(group.join("", metadata=bytes(2 * _MEGABYTE)), _JOIN_WITHOUT_AN_ID)
    world.ask(_synced(group, joined), _SYNC)
    world.ask(group.heartbeat(joined.member_id, joined.generation_id), _HEARTBEAT)
    world.ask(group.leave(joined.member_id), _LEAVE)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)


def long_and_unusual_names_are_accepted(world: World) -> None:
    long = "n" * 32_767
    for name in ("-", "\N{PARTY POPPER}", "a b\tc", "..", "x" * 5_000):
        wait_for_group_coordinator(world, name)
        group = Classic(name)
        joined = world.ask(group.join(instance="i " + name[:100]), 5)
        member, generation = joined.member_id, joined.generation_id
        instance = "i " + name[:100]
        world.ask(group.sync(member, generation, member, instance=instance), _SYNC)
        world.ask(group.heartbeat(member, generation, instance), _HEARTBEAT)
        world.ask(group.leave("", instance=instance), _LEAVE)
        world.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    world.ask(group.join(long), 5)
    world.ask(group.heartbeat(long, 1), 3)
    world.ask(group.leave(long), 2)


def many_protocols_may_be_offered(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    names = [f"protocol-{index}" for index in range(1_000)]
    joined = world.ask(group.join("", *names, metadata=b""), _JOIN_WITHOUT_AN_ID)
    world.ask(group.join("", *names[::-1], metadata=b""), _JOIN, on="second")
    world.ask(group.leave(joined.member_id), _LEAVE)


def wrong_counts_close_the_connection(world: World) -> None:
    """Close the connection after a request with a too large count, and create no group."""
    wait_for_group_coordinator(world, world.name)
    name = world.name.encode()
    head = struct.pack(f">h{len(name)}si", len(name), name, 30_000) + struct.pack(">ih", 9_000, 0)
    kind = struct.pack(">h8s", 8, b"consumer")
    for count in (0x7FFF_FFFF, 100_000, -1, -2):
        world.connection("liar").send_body(11, 1, head + kind + struct.pack(">i", count))
        world.receive("liar", title=f"a join with {count} protocols")
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)


SCENARIOS = (
    the_protocol_with_most_votes_is_selected,
    only_protocols_supported_by_all_are_selected,
    joins_are_repeated_before_the_assignment,
    waiting_syncs_get_rebalance_in_progress,
    a_leader_may_assign_any_bytes,
    followers_may_join_a_stable_group_again,
    another_member_becomes_leader_after_a_leave,
    members_of_every_kind_leave_together,
    static_members_return_during_a_rebalance,
    instance_ids_are_returned_since_version_5,
    pending_ids_belong_to_members_without_an_instance,
    invalid_subscriptions_are_accepted,
    subscribed_topics_are_fixed_per_generation,
    groups_of_other_protocol_types_protect_their_offsets,
    an_assignment_may_be_too_large,
    large_subscriptions_are_refused_when_they_are_recorded,
    long_and_unusual_names_are_accepted,
    many_protocols_may_be_offered,
    wrong_counts_close_the_connection,
)
