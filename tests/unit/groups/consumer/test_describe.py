"""Descriptions for ConsumerGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.groups.consumer.stage import G, Stage

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.consumer_group_describe import (
        ConsumerGroupDescribeResponse,
    )


def partitions_by_topic(
    assignment: ConsumerGroupDescribeResponse.Assignment,
) -> dict[str, list[int]]:
    return {part.topic_name: part.partitions for part in assignment.topic_partitions}


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
