"""The short way of a heartbeat: who may take it; that it leads where the long one does.

The second half is checked by `Stage.send`, with every heartbeat of every test of consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.consumer.beat import Client
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.groups.consumer.stage import (
    CLIENT,
    REBALANCE_TIMEOUT_MS,
    G,
    Stage,
    given,
    owned,
    topic_id,
)

if TYPE_CHECKING:
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

SESSION_TIMEOUT_MS = 45_000
INTERVAL_MS = 1_001
T_ID = topic_id("T")


def steady(
    stage: Stage,
    client: Client = CLIENT,
    **said: Any,  # noqa: ANN401 - any field
) -> ConsumerGroupHeartbeatResponse | None:
    """Return what a heartbeat of member A is answered on the short way."""
    words: dict[str, Any] = {"group_id": G, "member_id": "A", "member_epoch": 2, **said}
    request = ConsumerGroupHeartbeatRequest(**words)
    return stage.groups.steady(request, client, stage.now_ms)


@pytest.fixture
def stage() -> Stage:
    """Return a stage on which A is alone, at epoch 2, and has been told all there is to tell."""
    stage = Stage()
    assert stage.join("A").member_epoch == 2
    stage.beat("A", 2)
    return stage


def test_the_same_answer_is_given_again_and_again(stage: Stage) -> None:
    first = steady(stage)
    assert first is not None
    assert (first.member_id, first.member_epoch, first.assignment) == ("A", 2, None)
    stage.advance(5_000)
    assert steady(stage) is first


def test_it_is_a_sign_of_life(stage: Stage) -> None:
    for _ in range(3):
        stage.advance(SESSION_TIMEOUT_MS - 1)
        assert steady(stage) is not None
    assert list(stage.group.members) == ["A"]
    stage.advance(SESSION_TIMEOUT_MS)
    assert not stage.group.members


@pytest.mark.parametrize(
    "said",
    [
        {"group_id": "nowhere"},
        {"member_id": "nobody"},
        {"member_epoch": 1},
        {"member_epoch": 3},
        {"member_epoch": 0},
        {"member_epoch": -1},
        {"instance_id": "i"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 5},
        {"subscribed_topic_names": ["U"]},
        {"subscribed_topic_regex": "T.*"},
        {"server_assignor": "range"},
    ],
)
def test_whoever_says_more_takes_the_long_way(stage: Stage, said: dict[str, Any]) -> None:
    assert steady(stage, **said) is None


def test_whoever_comes_from_elsewhere_takes_the_long_way(stage: Stage) -> None:
    assert steady(stage, Client("other", CLIENT.host)) is None
    assert steady(stage, Client(CLIENT.client_id, "/10.0.0.1")) is None


def test_whoever_is_to_be_told_something_takes_the_long_way(stage: Stage) -> None:
    stage.join("B")
    assert stage.group.epoch == 3
    assert steady(stage) is None
    stage.advance(INTERVAL_MS)
    stage.beat("B", 2)
    assert stage.group.target_epoch == 3
    assert steady(stage) is None


def test_whoever_says_everything_again_is_told_everything_again(stage: Stage) -> None:
    """So a member does when it is unsure of the last answer; nothing of what it says is new."""
    everything = ConsumerGroupHeartbeatRequest(
        group_id=G,
        member_id="A",
        member_epoch=2,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=["T"],
        topic_partitions=owned({"T": range(4)}),
    )
    assert given(stage.send(everything)) == {"T": [0, 1, 2, 3]}
    assert steady(stage, subscribed_topic_names=["T"]) is not None


def test_changed_topics_take_the_long_way_once(stage: Stage) -> None:
    stage.change_topics({"T": 4, "other": 1})
    assert steady(stage) is None
    stage.beat("A", 2)
    assert steady(stage) is not None


def test_a_timer_to_be_set_takes_the_long_way() -> None:
    """After a restart no timer is known of; the short way cannot set one."""
    stage = Stage()
    stage.join("A")
    stage.beat("A", 2)
    stage.restart()
    stage.beat("A", 2)
    assert steady(stage) is not None


def test_a_group_with_expressions_takes_the_long_way() -> None:
    stage = Stage()
    stage.join("A", None, regex="T")
    stage.advance(1)
    epoch = stage.beat("A", stage.group.current["A"].member_epoch).member_epoch
    stage.beat("A", epoch)
    assert steady(stage, member_epoch=epoch) is None


def test_answers_of_members_that_left_are_not_kept(stage: Stage) -> None:
    stage.join("B")
    settle(stage, "A", "B")
    assert steady(stage, member_epoch=3) is not None
    assert steady(stage, member_id="B", member_epoch=3) is not None
    stage.beat("B", -1)
    settle(stage, "A")
    assert steady(stage, member_epoch=4) is not None
    assert list(stage.group.soft.answers) == ["A"]


def settle(stage: Stage, *members: str) -> None:
    """Let members heartbeat until each has what it shall have."""
    for _ in range(3):
        stage.advance(INTERVAL_MS)
        for member_id in members:
            current = stage.group.current[member_id]
            stage.beat(member_id, current.member_epoch, {"T": current.assigned.get(T_ID, {})})
