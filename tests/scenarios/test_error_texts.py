"""Texts that programs compare, as clients get them, and the reasons in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.metadata.internal_topics import offsets_topic
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.scenarios.streams_coordinator import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
KINDS = pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
VERSIONS = {"consumer": 1, "share": 1, "streams": 0}
HEARTBEATS: dict[str, type[Any]] = {
    "consumer": ConsumerGroupHeartbeatRequest,
    "share": ShareGroupHeartbeatRequest,
    "streams": StreamsGroupHeartbeatRequest,
}
DESCRIPTIONS: dict[str, type[Any]] = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}
JOINS: dict[str, dict[str, Any]] = {
    "consumer": {
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    },
    "share": {"subscribed_topic_names": ["t"]},
    "streams": {
        "rebalance_timeout_ms": 1_000,
        "topology": StreamsGroupHeartbeatRequest.Topology(subtopologies=[reading("t")]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
    },
}

CHANGES: dict[str, list[dict[str, Any]]] = {
    "consumer": [
        {"subscribed_topic_names": ["t", "u"]},
        {"subscribed_topic_names": ["t", "u", "v"]},
    ],
    "share": [{"subscribed_topic_names": ["t", "u"]}, {"subscribed_topic_names": ["t", "v"]}],
    "streams": [{"rack_id": "r"}, {"rack_id": "s"}],
}
"""Each of these requests gives a member a new epoch."""


class ClusterWithGroups(TestCluster):
    """A cluster with a topic `t`, and groups of every type."""

    def beat(
        self, kind: str, epoch: int = 0, *, group: str = "g", member: str = "m", **fields: object
    ) -> Any:  # noqa: ANN401 - one of three classes
        """Send a heartbeat; at epoch 0 with the fields of a join."""
        named = {**(JOINS[kind] if epoch == 0 else {}), **fields}
        request = HEARTBEATS[kind](group_id=group, member_id=member, member_epoch=epoch, **named)
        return self.ask(request, VERSIONS[kind])

    def joined(self, kind: str) -> int:
        """Join as the member m, and return its epoch."""
        answer = self.beat(kind)
        assert answer.error_code == ErrorCode.NONE, answer
        epoch: int = answer.member_epoch
        return epoch

    def explained(self, group: str = "g") -> list[str]:
        """Return the refusals in the history."""
        entries = self.cluster.history.about(group)
        return [entry.text for entry in entries if entry.kind == "refused"]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ClusterWithGroups]:
    wire = ClusterWithGroups(tmp_path, config=CONFIG)
    for name in ("t", "u", "v"):
        wire.create(name, 2)
    wire.cluster.metadata.create_topics([offsets_topic(wire.config)])
    yield wire
    wire.end()


@KINDS
def test_a_missing_group_is_not_found(wire: ClusterWithGroups, kind: str) -> None:
    version = VERSIONS[kind]
    (described,) = wire.ask(DESCRIPTIONS[kind](group_ids=["none"]), version).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group none not found."
    assert wire.beat(kind, -1, group="none").error_message == "Group none not found."
    # As in Kafka, the error of a member's heartbeat has the group type.
    response = wire.beat(kind, 1, group="none").error_message
    assert response == f"{kind.capitalize()} group none not found."


@KINDS
def test_a_group_of_another_type_is_reported(wire: ClusterWithGroups, kind: str) -> None:
    wire.joined({"consumer": "share", "share": "streams", "streams": "consumer"}[kind])
    (described,) = wire.ask(DESCRIPTIONS[kind](group_ids=["g"]), VERSIONS[kind]).groups
    assert described.error_message == f"Group g is not a {kind} group."
    (classic,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert classic.error_message == "Group g is not a classic group."
    (absent,) = wire.ask(DescribeGroupsRequest(groups=["none"]), 6).groups
    assert absent.error_message == "Group none not found."


@KINDS
def test_blank_ids_are_reported_as_empty(wire: ClusterWithGroups, kind: str) -> None:
    assert wire.beat(kind, group="").error_message == "GroupId can't be empty."
    assert wire.beat(kind, member=" ").error_message == "MemberId can't be empty."
    assert wire.beat(kind, rack_id=" ").error_message == "RackId can't be empty."


def test_a_blank_instance_id_is_reported_as_empty(wire: ClusterWithGroups) -> None:
    assert wire.beat("consumer", instance_id="").error_message == "InstanceId can't be empty."


@KINDS
def test_an_unknown_member_gets_no_details(wire: ClusterWithGroups, kind: str) -> None:
    wire.joined(kind)
    answer = wire.beat(kind, 1, member="x")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_message == "Member x is not a member of group g."


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_the_end_of_a_membership_is_in_the_history_and_not_in_the_answer(
    wire: ClusterWithGroups, kind: str
) -> None:
    epoch = wire.joined(kind)
    assert wire.beat(kind, -1).error_code == ErrorCode.NONE
    response = wire.beat(kind, epoch)
    assert response.error_message == "Member m is not a member of group g."
    assert "Member m is not a member of group g: it left at " in wire.explained()[-1]


@KINDS
def test_a_greater_epoch_is_fenced_with_both_epochs(wire: ClusterWithGroups, kind: str) -> None:
    epoch = wire.joined(kind)
    answer = wire.beat(kind, 999)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message == (
        f"The {kind} group member has a greater member epoch (999) than the one known by the group "
        f"coordinator ({epoch}). The member must abandon all its partitions and rejoin."
    )


@KINDS
def test_a_smaller_epoch_is_fenced_with_both_epochs(wire: ClusterWithGroups, kind: str) -> None:
    epoch = wire.joined(kind)
    first = epoch
    for change in CHANGES[kind]:
        answer = wire.beat(kind, epoch, **change)
        assert answer.error_code == ErrorCode.NONE, answer
        epoch = answer.member_epoch
    assert epoch == first + 2
    response = wire.beat(kind, first)
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    previous = ", and it does not match the previous member epoch" if kind == "share" else ""
    assert response.error_message.startswith(
        f"The {kind} group member has a smaller member epoch ({first}) than the one known by the "
        f"group coordinator ({epoch}){previous}"
    )
    assert response.error_message.endswith(
        ". The member must abandon all its partitions and rejoin."
    )


def test_an_unsupported_assignor_is_reported_with_the_supported_ones(
    wire: ClusterWithGroups,
) -> None:
    answer = wire.beat("consumer", server_assignor="invalid")
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == (
        "ServerAssignor invalid is not supported. Supported assignors: uniform, range."
    )


def test_missing_source_topics_are_listed(wire: ClusterWithGroups) -> None:
    topology = StreamsGroupHeartbeatRequest.Topology(subtopologies=[reading("b", "a", "t")])
    (status,) = wire.beat("streams", topology=topology).status
    assert status.status_detail == "Source topics a, b are missing."
