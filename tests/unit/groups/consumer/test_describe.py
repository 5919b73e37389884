"""Descriptions for ConsumerGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import CLIENT, G, Stage, refusal

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.consumer_group_describe import (
        ConsumerGroupDescribeResponse,
    )


def partitions_by_topic(
    assignment: ConsumerGroupDescribeResponse.Assignment,
) -> dict[str, list[int]]:
    return {part.topic_name: part.partitions for part in assignment.topic_partitions}


def test_a_reconciling_group_is_described_with_current_and_target_assignments() -> None:
    stage = Stage({"T": 4}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", instance_id="i")
    stage.join("B")
    stage.beat("A", 2)
    described = stage.groups.describe(G)
    assert described.group_id == G
    assert described.group_state == "Reconciling"
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.assignor_name == "uniform"
    a, b = described.members
    assert (a.member_id, a.instance_id, a.member_epoch, a.member_type) == ("A", "i", 2, 1)
    assert (a.client_id, a.client_host) == (CLIENT.client_id, CLIENT.host)
    assert (a.subscribed_topic_names, a.subscribed_topic_regex) == (["T"], "")
    # Partitions that are pending revocation still belong to it.
    assert partitions_by_topic(a.assignment) == {"T": [0, 1, 2, 3]}
    assert partitions_by_topic(a.target_assignment) == {"T": [0, 1]}
    assert (
        b.member_epoch,
        partitions_by_topic(b.assignment),
        partitions_by_topic(b.target_assignment),
    ) == (3, {}, {"T": [2, 3]})


def test_deleted_topics_are_omitted() -> None:
    stage = Stage({"T": 1, "U": 1})
    stage.join("A", ["T", "U"])
    stage.change_topics({"T": 1})
    (member,) = stage.groups.describe(G).members
    assert (
        partitions_by_topic(member.assignment)
        == partitions_by_topic(member.target_assignment)
        == {"T": [0]}
    )


def test_describing_a_missing_group_is_refused() -> None:
    assert refusal(lambda: Stage().groups.describe(G)) is ErrorCode.GROUP_ID_NOT_FOUND
