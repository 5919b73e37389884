"""What ConsumerGroupDescribe tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import CLIENT, G, Stage, refusal

if TYPE_CHECKING:
    from kafkalite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse


def told(assignment: ConsumerGroupDescribeResponse.Assignment) -> dict[str, list[int]]:
    return {part.topic_name: part.partitions for part in assignment.topic_partitions}


def test_a_group_in_the_middle_of_a_rebalance() -> None:
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
    # What it is still to give up is still its own.
    assert told(a.assignment) == {"T": [0, 1, 2, 3]}
    assert told(a.target_assignment) == {"T": [0, 1]}
    assert (b.member_epoch, told(b.assignment), told(b.target_assignment)) == (3, {}, {"T": [2, 3]})


def test_topics_that_are_no_more_are_left_out() -> None:
    stage = Stage({"T": 1, "U": 1})
    stage.join("A", ["T", "U"])
    stage.change_topics({"T": 1})
    (member,) = stage.groups.describe(G).members
    assert told(member.assignment) == told(member.target_assignment) == {"T": [0]}


def test_a_group_that_is_not_there() -> None:
    assert refusal(lambda: Stage().groups.describe(G)) is ErrorCode.GROUP_ID_NOT_FOUND
