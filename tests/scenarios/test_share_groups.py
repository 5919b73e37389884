"""Scenarios: share groups from requests to records, with a controlled clock and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.share_groups import ShareGroupCluster
from tests.unit.groups.share.stage import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION_MS = 45_000
INTERVAL_MS = 1_000


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupCluster]:
    wire = ShareGroupCluster(tmp_path)
    yield wire
    wire.end()


def described(wire: ShareGroupCluster, group: str = "g") -> Any:  # noqa: ANN401 - any response class
    (group_result,) = wire.ask(ShareGroupDescribeRequest(group_ids=[group]), 1).groups
    return group_result


def members(wire: ShareGroupCluster) -> dict[str, tuple[int, list[list[int]]]]:
    """Return the epoch and partitions of each member."""
    return {
        member.member_id: (
            member.member_epoch,
            [row.partitions for row in member.assignment.topic_partitions],
        )
        for member in described(wire).members
    }


def history_texts(wire: ShareGroupCluster) -> list[str]:
    """Return the texts of the group's history."""
    return [f"{entry.kind}: {entry.text}" for entry in wire.cluster.history.about("g")]


def test_the_records_of_a_group_from_its_first_heartbeat_to_its_deletion(
    wire: ShareGroupCluster,
) -> None:
    """Each step writes exactly these records."""
    written: list[int] = [0]

    def since() -> list[str]:
        new = kinds(wire.records()[written[0] :])
        written[0] += len(new)
        return new

    wire.create("t", 2)
    assert wire.beat("a", 0, ["t"]).member_epoch == 2
    assert since() == [
        "MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata",
        "CurrentMemberAssignment", "StatePartitionMetadata", "StatePartitionMetadata",
    ]  # fmt: skip
    assert wire.beat("a", 2).member_epoch == 3
    assert since() == [
        "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]  # fmt: skip
    wire.beat("a", 3)
    wire.beat("a", 3)
    assert since() == []
    assert wire.beat("b", 0, ["t"]).member_epoch == 4
    assert since() == [
        "MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMember",
        "TargetAssignmentMetadata", "CurrentMemberAssignment",
    ]  # fmt: skip
    wire.beat("a", 3)
    assert since() == ["CurrentMemberAssignment"]
    for member, last in (("a", []), ("b", ["TargetAssignmentMetadata"])):
        wire.beat(member, -1)
        assert since() == [
            "-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata",
            *last,
        ]  # fmt: skip
    wire.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert since() == [
        "StatePartitionMetadata", "-TargetAssignmentMetadata", "-StatePartitionMetadata",
        "-Metadata",
    ]  # fmt: skip
    assert described(wire).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_session_begins_with_the_last_heartbeat(wire: ShareGroupCluster) -> None:
    wire.create("t")
    wire.beat("a", 0, ["t"])
    wire.beat("b", 0, ["t"])
    wire.clock.advance(SESSION_MS - 1)
    epoch = described(wire).group_epoch
    wire.beat("b", epoch)
    wire.clock.advance(1)
    assert list(members(wire)) == ["b"]
    assert described(wire).group_epoch == epoch + 1
    assert wire.beat("a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        "expired: member a removed: it sent no heartbeat within its session timeout"
        in history_texts(wire)
    )
    wire.clock.advance(SESSION_MS)
    assert described(wire).group_state == "Empty"


def test_a_restart_loses_only_sessions(wire: ShareGroupCluster) -> None:
    wire.create("t", 3)
    wire.beat("a", 0, ["t"])
    wire.beat("b", 0, ["t"])
    for member in "ab":
        wire.beat(member, members(wire)[member][0])
    wire.clock.advance(SESSION_MS - 1)
    before = (members(wire), described(wire).group_epoch)
    wire.restart()
    assert (members(wire), described(wire).group_epoch) == before
    wire.clock.advance(SESSION_MS - 1)
    assert set(members(wire)) == {"a", "b"}
    epoch = before[1]
    assert wire.beat("a", epoch).member_epoch == epoch
    wire.clock.advance(1)
    assert set(members(wire)) == {"a"}


def test_a_restart_continues_the_initialization_of_share_state(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group's record contains the intent, which itself was only in memory."""
    topic_id = wire.create("t", 2)

    def refuse(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    monkeypatch.setattr(wire.cluster.shares, "initialize_state", refuse)
    wire.beat("a", 0, ["t"])
    assert wire.beat("a", 2).assignment is None
    wire.restart()
    assert wire.cluster.shares.summary("g", topic_id, 1).state_epoch == 2
    (row,) = wire.beat("a", 2).assignment.topic_partitions
    assert row.partitions == [0, 1]


def test_a_recreated_topic_is_another_topic(wire: ShareGroupCluster) -> None:
    wire.create("t", 2)
    wire.beat("a", 0, ["t"])
    wire.beat("a", 2)
    wire.cluster.metadata.delete_topics([wire.cluster.metadata.image.topics["t"].topic_id])
    response = wire.beat("a", 3)
    assert (response.member_epoch, response.assignment.topic_partitions) == (4, [])
    topic_id = wire.create("t", 1)
    epoch = wire.beat("a", 4).member_epoch
    (row,) = wire.beat("a", epoch).assignment.topic_partitions
    assert (row.topic_id, row.partitions) == (topic_id, [0])


def test_assignments_respect_the_assignment_interval(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path, config={"group.share.assignment.interval.ms": "1000"})
    wire.create("t", 2)
    wire.beat("a", 0, ["t"])
    assert wire.beat("a", 2).member_epoch == 2
    wire.clock.advance(INTERVAL_MS - 1)
    assert wire.beat("a", 2).member_epoch == 2
    wire.clock.advance(1)
    assert wire.beat("a", 2).member_epoch == 3
    wire.end()


def test_a_group_has_its_own_settings(wire: ShareGroupCluster) -> None:
    wire.create("t")
    wire.beat("a", 0, ["t"])
    config = IncrementalAlterConfigsRequest.AlterableConfig
    values = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=ResourceType.GROUP,
        resource_name="g",
        configs=[
            config(name=name, config_operation=0, value=value) for name, value in values.items()
        ],
    )
    wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert ConfigResource(ResourceType.GROUP, "g") in wire.cluster.metadata.image.configs
    assert wire.beat("a", 2).heartbeat_interval_ms == 7_000
    wire.clock.advance(49_999)
    assert list(members(wire)) == ["a"]
    wire.clock.advance(1)
    assert not members(wire)


def test_the_size_of_a_group_is_limited(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path, config={"group.share.max.size": "2"})
    for member in "ab":
        wire.beat(member, 0, ["t"])
    assert wire.beat("c", 0, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert wire.beat("c", 1, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert wire.beat("a", 0, ["t"]).error_code == ErrorCode.NONE
    wire.beat("b", -1)
    assert wire.beat("c", 0, ["t"]).error_code == ErrorCode.NONE
    wire.end()


def test_a_heartbeat_that_cannot_be_stored_changes_nothing(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create("t")
    with monkeypatch.context() as patch:
        patch.setattr(wire.cluster.groups.shards()[0], "_log", _FullLog())
        assert wire.beat("a", 0, ["t"]).error_code == ErrorCode.NOT_COORDINATOR
    assert described(wire).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wire.beat("a", 0, ["t"]).member_epoch == 2
    assert wire.beat("a", 2).member_epoch == 3


class _FullLog:
    """A log that refuses all records."""

    name = "full"

    def append(self, *_: object) -> int:
        raise OSError(28, "no space left")


def test_empty_groups_remain_listed(wire: ShareGroupCluster) -> None:
    wire.create("t")
    wire.join_and_leave("t")
    wire.clock.advance(30 * 24 * 3_600_000)
    (row,) = wire.ask(ListGroupsRequest(types_filter=["share"]), 5).groups
    assert (row.group_id, row.group_state, row.group_type) == ("g", "Empty", "share")


def test_rebalances_have_reasons(wire: ShareGroupCluster) -> None:
    wire.create("t")
    wire.beat("a", 0, ["t"])
    wire.beat("a", 2)
    wire.beat("a", 9)
    wire.beat("a", -1)
    assert history_texts(wire) == [
        "joined: member a joined",
        "rebalance: group epoch 1 → 2: member a subscribes to t",
        "assigned: target for group epoch 2 computed by simple: changed for 1 member",
        "ready: share state of 1 partition of t is initialized",
        "rebalance: group epoch 2 → 3: share partitions of t are initialized",
        "assigned: target for group epoch 3 computed by simple: changed for 1 member",
        (
            "refused: ShareGroupHeartbeat refused: The share group member has a greater member "
            "epoch (9) than the one known by the group coordinator (3). The member must abandon "
            "all its partitions and rejoin. (FENCED_MEMBER_EPOCH)"
        ),
        "left: member a removed: it left",
        "rebalance: group epoch 3 → 4: member a removed: it left",
    ]
    (facts,) = [each.facts for each in wire.cluster.history.about("g") if each.kind == "refused"]
    assert facts["error"] == "FENCED_MEMBER_EPOCH"
    assert facts["rule"] == "member-epoch"
