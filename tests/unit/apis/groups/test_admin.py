"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.groups import GroupCluster
from tests.unit.apis.groups.test_classic import join, join_request, sync_request
from tests.unit.apis.groups.test_offset_commit import commit_request


@pytest.fixture
def wire() -> GroupCluster:
    """Return nodes with a stable group g and a simple group s."""
    wire = GroupCluster()
    wire.ask(FindCoordinatorRequest(key="g"), 3)
    wire.create("t", 3)
    joined = join(wire, 9)
    wire.ask(sync_request(joined.member_id), 5)
    wire.ask(commit_request({("t", 0): 1}, group="s"), 8)
    return wire


def listed_groups(wire: GroupCluster, version: int, **filters: list[str]) -> set[tuple[str, ...]]:
    listed = wire.ask(ListGroupsRequest(**filters), version)  # type: ignore[arg-type]
    assert listed.error_code == 0
    return {
        (group.group_id, group.protocol_type, group.group_state, group.group_type)
        for group in listed.groups
    }


def test_each_node_lists_the_groups_it_coordinates() -> None:
    wire = GroupCluster(nodes=3)
    groups = [f"group-{number}" for number in range(12)]
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=groups), 4)
    wire.create("t")
    for coordinator in found.coordinators:
        wire.ask(commit_request({("t", 0): 1}, group=coordinator.key), 8, coordinator.node_id)
    for node in (1, 2, 3):
        listed = wire.ask(ListGroupsRequest(), 5, node).groups
        assert {group.group_id for group in listed} == {
            coordinator.key for coordinator in found.coordinators if coordinator.node_id == node
        }


def test_groups_are_listed_in_the_order_of_kafka() -> None:
    """Kafka 4.4.0 listed the same groups of five partitions so."""
    wire = GroupCluster(config={"offsets.topic.num.partitions": "5"})
    wire.ask(FindCoordinatorRequest(coordinator_keys=["grp-0"]), 4)
    wire.create("t")
    for number in range(40):
        wire.ask(commit_request({("t", 0): 1}, group=f"grp-{number}"), 8)
    listed = wire.ask(ListGroupsRequest(), 5).groups
    assert [int(each.group_id.removeprefix("grp-")) for each in listed] == [
        38, 33, 24, 29, 3, 10, 8, 15, 12, 30, 17, 35, 1, 21, 6, 26, 25, 20, 2, 7,
        11, 16, 39, 34, 14, 4, 37, 32, 19, 9, 23, 28, 22, 27, 13, 36, 31, 18, 0, 5,
    ]  # fmt: skip


def test_the_order_does_not_depend_on_the_partitions_that_were_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a restore, partitions with empty logs are loaded by their first use."""
    wire = GroupCluster()
    monkeypatch.setattr(wire.groups, "_is_log_empty", lambda _: True)
    wire.ask(FindCoordinatorRequest(coordinator_keys=["group-0"]), 4)
    wire.create("t")
    for number in range(6):
        wire.ask(commit_request({("t", 0): 1}, group=f"group-{number}"), 8)
    assert len(wire.groups.shards()) < 50
    first = [each.group_id for each in wire.ask(ListGroupsRequest(), 5).groups]
    for partition in range(50):
        wire.groups.read(partition, lambda *_: None)
    assert [each.group_id for each in wire.ask(ListGroupsRequest(), 5).groups] == first


def test_a_rebalancing_group_is_described_with_its_last_assignments_only(
    wire: GroupCluster,
) -> None:
    wire.ask(join_request(), 0)
    (group,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in group.members] == [
        (b"", b"all"),
        (b"", b""),
    ]


def test_a_group_of_another_coordinator_is_not_described_or_deleted() -> None:
    wire = GroupCluster()
    (group,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")
    (result,) = wire.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_individually_and_duplicates_once(
    wire: GroupCluster, version: int
) -> None:
    names = ["g", "s", "none", "s"]
    results = wire.ask(DeleteGroupsRequest(groups_names=names), version).results
    assert {result.group_id: result.error_code for result in results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "s": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(results) == 3
    assert {group for group, *_ in listed_groups(wire, 5)} == {"g"}


def test_a_sync_of_an_unknown_member_changes_nothing(wire: GroupCluster) -> None:
    request = SyncGroupRequest(group_id="s", generation_id=1, member_id="m")
    assert wire.ask(request, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ("s", "", "Empty", "classic") in listed_groups(wire, 5)
