"""Steady heartbeats: their conditions, and equality with the full path.

The second half is checked by `Stage.send`, with every heartbeat of every test of consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.modern.member import Client
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.unit.groups.consumer.stage import (
    CLIENT,
    REBALANCE_TIMEOUT_MS,
    G,
    Stage,
    assigned_partitions,
    owned,
    topic_id,
)

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

SESSION_TIMEOUT_MS = 45_000
INTERVAL_MS = 1_001
T_ID = topic_id("T")


def steady(
    stage: Stage,
    client: Client = CLIENT,
    **fields: Any,  # noqa: ANN401 - any field
) -> ConsumerGroupHeartbeatResponse | None:
    """Return the response to a steady heartbeat of member A, or None."""
    request_fields: dict[str, Any] = {"group_id": G, "member_id": "A", "member_epoch": 2, **fields}
    request = ConsumerGroupHeartbeatRequest(**request_fields)
    return stage.groups.steady_heartbeat(request, client, stage.now_ms)


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a single member A at epoch 2, which has its whole assignment."""
    stage = Stage()
    assert stage.join("A").member_epoch == 2
    stage.beat("A", 2)
    return stage


def test_the_cached_response_is_reused(stage: Stage) -> None:
    first = steady(stage)
    assert first is not None
    assert (first.member_id, first.member_epoch, first.assignment) == ("A", 2, None)
    stage.advance(5_000)
    assert steady(stage) is first


def test_a_steady_heartbeat_extends_the_session(stage: Stage) -> None:
    for _ in range(3):
        stage.advance(SESSION_TIMEOUT_MS - 1)
        assert steady(stage) is not None
    assert list(stage.group.members) == ["A"]
    stage.advance(SESSION_TIMEOUT_MS)
    assert not stage.group.members


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": "nowhere"},
        {"member_id": "unknown"},
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
def test_requests_with_more_fields_are_not_steady(stage: Stage, fields: dict[str, Any]) -> None:
    assert steady(stage, **fields) is None


def test_a_changed_client_is_not_steady(stage: Stage) -> None:
    assert steady(stage, Client("other", CLIENT.host)) is None
    assert steady(stage, Client(CLIENT.client_id, "/10.0.0.1")) is None


def test_a_member_with_a_new_assignment_is_not_steady(stage: Stage) -> None:
    stage.join("B")
    assert stage.group.epoch == 3
    assert steady(stage) is None
    stage.advance(INTERVAL_MS)
    stage.beat("B", 2)
    assert stage.group.target_epoch == 3
    assert steady(stage) is None


def test_a_full_request_is_not_steady(stage: Stage) -> None:
    """A member sends all fields if it missed a response, even if nothing has changed."""
    everything = ConsumerGroupHeartbeatRequest(
        group_id=G,
        member_id="A",
        member_epoch=2,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=["T"],
        topic_partitions=owned({"T": range(4)}),
    )
    assert assigned_partitions(stage.send(everything)) == {"T": [0, 1, 2, 3]}
    assert steady(stage, subscribed_topic_names=["T"]) is not None


def test_one_heartbeat_after_changed_topics_is_not_steady(stage: Stage) -> None:
    stage.change_topics({"T": 4, "other": 1})
    assert steady(stage) is None
    stage.beat("A", 2)
    assert steady(stage) is not None


def test_a_heartbeat_that_sets_a_timer_is_not_steady() -> None:
    """After a restart there is no timer, and a steady heartbeat cannot set one."""
    stage = Stage()
    stage.join("A")
    stage.beat("A", 2)
    stage.restart()
    stage.beat("A", 2)
    assert steady(stage) is not None


def test_a_group_with_expressions_is_not_steady() -> None:
    stage = Stage()
    stage.join("A", None, regex="T")
    stage.advance(1)
    epoch = stage.beat("A", stage.group.current["A"].member_epoch).member_epoch
    stage.beat("A", epoch)
    assert steady(stage, member_epoch=epoch) is None


def test_cached_responses_of_removed_members_are_dropped(stage: Stage) -> None:
    stage.join("B")
    settle(stage, "A", "B")
    assert steady(stage, member_epoch=3) is not None
    assert steady(stage, member_id="B", member_epoch=3) is not None
    stage.beat("B", -1)
    settle(stage, "A")
    assert steady(stage, member_epoch=4) is not None
    assert list(stage.group.soft.answers) == ["A"]


def settle(stage: Stage, *members: str) -> None:
    """Send heartbeats until each member has its target assignment."""
    for _ in range(3):
        stage.advance(INTERVAL_MS)
        for member_id in members:
            current = stage.group.current[member_id]
            stage.beat(member_id, current.member_epoch, {"T": current.assigned.get(T_ID, {})})
