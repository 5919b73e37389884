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

    from tests.conformance.scenario_cluster import ScenarioCluster

_JOIN, _SYNC, _HEARTBEAT, _LEAVE = 9, 5, 4, 5
_JOIN_WITHOUT_AN_ID = 3
_MEGABYTE = 1 << 20


def wait_until_it_rebalances(
    cluster: ScenarioCluster, group: Classic, member: str, generation: int
) -> None:
    """Wait until a member learns of a rebalance that another member started."""
    cluster.call_until(
        group.heartbeat(member, generation), _HEARTBEAT, lambda found: found.error_code != 0
    )


def pair(
    cluster: ScenarioCluster, group: Classic, *, instances: Sequence[str | None] = (None, None)
) -> Any:  # noqa: ANN401
    """Create a generation of two members without assignment; return their answers."""
    wait_for_group_coordinator(cluster, group.group)
    first = cluster.probe(group.join(instance=instances[0]), _JOIN_WITHOUT_AN_ID + 2)
    if first.generation_id < 0:
        first = cluster.probe(group.join(first.member_id), _JOIN)
    cluster.probe(_synced(group, first, instance=instances[0]), _SYNC)
    second_id = ""
    if instances[1] is None:
        second_id = cluster.connection("second").call(group.join(), _JOIN).member_id
    cluster.connection("second").send(group.join(second_id, instance=instances[1]), _JOIN)
    heartbeat = group.heartbeat(first.member_id, first.generation_id, instances[0])
    cluster.call_until(
        heartbeat, _HEARTBEAT, lambda found: found.error_code != 0, is_recorded=False
    )
    first = cluster.probe(group.join(first.member_id, instance=instances[0]), _JOIN)
    second = cluster.connection("second").receive()
    cluster.name_member(first.member_id, "the first")
    cluster.name_member(second.member_id, "the second")
    return first, second


def _synced(group: Classic, joined: Any, *members: str, instance: str | None = None) -> Any:  # noqa: ANN401
    return group.sync(
        joined.member_id, joined.generation_id, *(members or (joined.member_id,)), instance=instance
    )


def the_protocol_with_most_votes_is_selected(cluster: ScenarioCluster) -> None:
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
        name = f"{cluster.name}-{index}"
        wait_for_group_coordinator(cluster, name)
        group = Classic(name)
        first = cluster.ask(group.join("", *one), _JOIN_WITHOUT_AN_ID)
        second = f"second-{index}"
        cluster.send(group.join("", *other), _JOIN_WITHOUT_AN_ID, on=second)
        wait_until_it_rebalances(cluster, group, first.member_id, first.generation_id)
        again = cluster.ask(group.join(first.member_id, *one), _JOIN)
        received = cluster.receive(second, title="the other's join")
        cluster.record("chosen", [str(again.protocol_name), str(received.protocol_name)])


def only_protocols_supported_by_all_are_selected(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    first = cluster.ask(group.join("", "range", "sticky"), _JOIN_WITHOUT_AN_ID)
    cluster.send(group.join("", "own", "sticky"), _JOIN_WITHOUT_AN_ID, on="second")
    wait_until_it_rebalances(cluster, group, first.member_id, first.generation_id)
    cluster.ask(group.join("", "range"), _JOIN_WITHOUT_AN_ID, on="third")
    cluster.ask(group.join("", "own"), _JOIN, on="third")
    cluster.ask(group.join(first.member_id, "range"), _JOIN)
    cluster.ask(group.join(first.member_id, "range", "sticky"), _JOIN)
    cluster.receive("second", title="the join of the second")


def joins_are_repeated_before_the_assignment(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    for version in (2, 5, 9):
        cluster.ask(group.join(first.member_id), version)
        cluster.ask(group.join(second.member_id), version, on="second")
    cluster.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)
    cluster.send(group.join(second.member_id, "range", "sticky"), _JOIN, on="second")
    wait_until_it_rebalances(cluster, group, first.member_id, first.generation_id)
    cluster.ask(_synced(group, first), _SYNC)
    cluster.ask(group.join(first.member_id), _JOIN)
    cluster.receive("second", title="the changed join")


def waiting_syncs_get_rebalance_in_progress(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(_synced(group, second), _SYNC, on="second")
    refused = cluster.ask(group.join(), _JOIN, on="third")
    cluster.send(group.join(refused.member_id), _JOIN, on="third")
    cluster.receive("second", title="the sync of the second")
    cluster.ask(_synced(group, first), _SYNC)
    cluster.send(group.join(second.member_id), _JOIN, on="second")
    cluster.ask(group.join(first.member_id), _JOIN)
    cluster.receive("second", title="the join of the second")
    cluster.receive("third", title="the join of the third")


def a_leader_may_assign_any_bytes(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(_synced(group, second), _SYNC, on="second")
    cluster.ask(_synced(group, first, "an unknown member", first.member_id), _SYNC)
    cluster.receive("second", title="the sync of the member without an assignment")
    for version in range(6):
        cluster.ask(_synced(group, second, "ignored"), version, on="second")
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)


def followers_may_join_a_stable_group_again(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(_synced(group, second), _SYNC, on="second")
    cluster.ask(_synced(group, first, first.member_id, second.member_id), _SYNC)
    cluster.receive("second", title="the sync of the second")
    for version in (0, 5, 9):
        cluster.ask(group.join(second.member_id), version, on="second")
    cluster.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    cluster.send(group.join(first.member_id), _JOIN)
    wait_until_it_rebalances(cluster, group, second.member_id, second.generation_id)
    cluster.ask(group.join(second.member_id), _JOIN, on="second")
    cluster.receive(title="the join of the leader")


def another_member_becomes_leader_after_a_leave(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(_synced(group, second), _SYNC, on="second")
    cluster.ask(group.leave(first.member_id), _LEAVE)
    cluster.receive("second", title="the sync of the second")
    cluster.ask(group.heartbeat(second.member_id, second.generation_id), _HEARTBEAT)
    cluster.ask(_synced(group, second), _SYNC, on="second")
    alone = cluster.ask(group.join(second.member_id), _JOIN, on="second")
    cluster.ask(_synced(group, alone), _SYNC, on="second")
    cluster.ask(group.heartbeat(first.member_id, alone.generation_id), _HEARTBEAT)
    cluster.ask(group.leave(second.member_id), _LEAVE)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)


def members_of_every_kind_leave_together(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group, instances=("i-1", "i-2"))
    pending = cluster.ask(group.join(), _JOIN, on="third").member_id
    identity = LeaveGroupRequest.MemberIdentity
    batch = LeaveGroupRequest(
        group_id=cluster.name,
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
    cluster.ask(batch, _LEAVE)
    cluster.ask(group.heartbeat(second.member_id, second.generation_id, "i-2"), _HEARTBEAT)
    cluster.ask(LeaveGroupRequest(group_id=cluster.name, members=[]), _LEAVE)
    cluster.ask(batch, 3)


def static_members_return_during_a_rebalance(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group, instances=("i-1", "i-2"))
    cluster.send(_synced(group, second, instance="i-2"), _SYNC, on="second")
    cluster.send(group.join(instance="i-2"), _JOIN, on="again")
    cluster.receive("second", title="the sync of the old id")
    heartbeat = group.heartbeat(first.member_id, first.generation_id, "i-1")
    cluster.call_until(heartbeat, _HEARTBEAT, lambda found: found.error_code != 0)
    cluster.ask(group.heartbeat(second.member_id, second.generation_id, "i-2"), _HEARTBEAT)
    cluster.send(group.join(instance="i-2"), _JOIN, on="a third time")
    cluster.receive("again", title="the join of the second id")
    cluster.ask(group.join(first.member_id, instance="i-1"), _JOIN)
    cluster.receive("a third time", title="the join of the third id")


def instance_ids_are_returned_since_version_5(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(instance="i-1"), 4)
    cluster.ask(group.join(refused.member_id, instance="i-1"), _JOIN)
    first = cluster.ask(group.join(refused.member_id), 4)
    cluster.send(group.join(instance=""), 5, on="second")
    wait_until_it_rebalances(cluster, group, first.member_id, first.generation_id)
    cluster.ask(group.join(first.member_id), 4)
    cluster.receive("second", title="the join of an instance without a name")


def pending_ids_belong_to_members_without_an_instance(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(), _JOIN)
    cluster.ask(group.join(refused.member_id, instance="i-1"), _JOIN)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    cluster.ask(group.join(refused.member_id), _JOIN)


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


def invalid_subscriptions_are_accepted(cluster: ScenarioCluster) -> None:
    """Unreadable subscriptions are accepted; then no offset of the group can be deleted.

    `test_known_differences` has subscriptions with wrong lengths.
    """
    create_topic(cluster, cluster.name)
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
        name = f"{cluster.name}-{index}"
        wait_for_group_coordinator(cluster, name)
        group = Classic(name)
        cluster.ask(commit(name, cluster.name, 0), 8)
        joined = cluster.ask(group.join("", metadata=metadata), _JOIN_WITHOUT_AN_ID)
        cluster.ask(_synced(group, joined), _SYNC)
        cluster.ask(_forget(name, cluster.name), 0)
        named = commit(
            name, cluster.name, 0, member_id=joined.member_id, epoch=joined.generation_id
        )
        cluster.ask(named, 8)
        cluster.ask(group.leave(joined.member_id), _LEAVE)
        cluster.ask(_forget(name, cluster.name), 0)


def subscribed_topics_are_fixed_per_generation(cluster: ScenarioCluster) -> None:
    first_topic, second_topic = f"{cluster.name}-a", f"{cluster.name}-b"
    create_topic(cluster, first_topic)
    create_topic(cluster, second_topic)
    group, member, generation = stable_group(cluster, cluster.name, first_topic)
    cluster.ask(_forget(cluster.name, first_topic, second_topic), 0)
    other = Classic(cluster.name, second_topic)
    cluster.send(other.join(member), _JOIN)
    cluster.probe(group.heartbeat("unknown", generation), _HEARTBEAT)
    moved = cluster.receive(title="the join with another topic")
    cluster.ask(_forget(cluster.name, first_topic, second_topic), 0)
    refused = cluster.ask(group.join(), _JOIN, on="second")
    cluster.send(group.join(refused.member_id), _JOIN, on="second")
    wait_until_it_rebalances(cluster, group, member, moved.generation_id)
    cluster.ask(_forget(cluster.name, first_topic, second_topic), 0)
    cluster.ask(other.join(member), _JOIN)
    cluster.receive("second", title="the join of the second")
    cluster.ask(_forget(cluster.name, first_topic, second_topic), 0)


def groups_of_other_protocol_types_protect_their_offsets(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    joined = new_member(cluster, group, kind="connect")
    cluster.ask(group.sync(joined.member_id, 1, joined.member_id, kind="connect"), _SYNC)
    cluster.ask(_forget(cluster.name, cluster.name), 0)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)
    cluster.ask(group.leave(joined.member_id), _LEAVE)
    cluster.ask(_forget(cluster.name, cluster.name), 0)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def an_assignment_may_be_too_large(cluster: ScenarioCluster) -> None:
    """Refuse an assignment that cannot be recorded; the members rejoin."""
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(_synced(group, second), _SYNC, on="second")
    large = _synced(group, first)
    large.assignments[0].assignment = bytes(2 * _MEGABYTE)
    cluster.ask(large, _SYNC)
    cluster.receive("second", title="the sync of the second")
    cluster.ask(group.heartbeat(first.member_id, first.generation_id), _HEARTBEAT)
    cluster.send(group.join(second.member_id), _JOIN, on="second")
    again = cluster.ask(group.join(first.member_id), _JOIN)
    cluster.receive("second", title="the join of the second")
    cluster.record("the next generation", again.generation_id == first.generation_id + 1)
    cluster.ask(_synced(group, again, first.member_id, second.member_id), _SYNC)


def large_subscriptions_are_refused_when_they_are_recorded(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    joined = cluster.ask(group.join("", metadata=bytes(2 * _MEGABYTE)), _JOIN_WITHOUT_AN_ID)
    cluster.ask(_synced(group, joined), _SYNC)
    cluster.ask(group.heartbeat(joined.member_id, joined.generation_id), _HEARTBEAT)
    cluster.ask(group.leave(joined.member_id), _LEAVE)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)


def long_and_unusual_names_are_accepted(cluster: ScenarioCluster) -> None:
    long = "n" * 32_767
    for name in ("-", "\N{PARTY POPPER}", "a b\tc", "..", "x" * 5_000):
        wait_for_group_coordinator(cluster, name)
        group = Classic(name)
        joined = cluster.ask(group.join(instance="i " + name[:100]), 5)
        member, generation = joined.member_id, joined.generation_id
        instance = "i " + name[:100]
        cluster.ask(group.sync(member, generation, member, instance=instance), _SYNC)
        cluster.ask(group.heartbeat(member, generation, instance), _HEARTBEAT)
        cluster.ask(group.leave("", instance=instance), _LEAVE)
        cluster.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    cluster.ask(group.join(long), 5)
    cluster.ask(group.heartbeat(long, 1), 3)
    cluster.ask(group.leave(long), 2)


def many_protocols_may_be_offered(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    names = [f"protocol-{index}" for index in range(1_000)]
    joined = cluster.ask(group.join("", *names, metadata=b""), _JOIN_WITHOUT_AN_ID)
    cluster.ask(group.join("", *names[::-1], metadata=b""), _JOIN, on="second")
    cluster.ask(group.leave(joined.member_id), _LEAVE)


def wrong_counts_close_the_connection(cluster: ScenarioCluster) -> None:
    """Close the connection after a request with a too large count, and create no group."""
    wait_for_group_coordinator(cluster, cluster.name)
    name = cluster.name.encode()
    head = struct.pack(f">h{len(name)}si", len(name), name, 30_000) + struct.pack(">ih", 9_000, 0)
    kind = struct.pack(">h8s", 8, b"consumer")
    for count in (0x7FFF_FFFF, 100_000, -1, -2):
        cluster.connection("liar").send_body(11, 1, head + kind + struct.pack(">i", count))
        cluster.receive("liar", title=f"a join with {count} protocols")
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)


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
