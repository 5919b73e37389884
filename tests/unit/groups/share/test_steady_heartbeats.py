"""Steady heartbeats of share groups; the stage compares them with the full path."""

from __future__ import annotations

from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.groups.consumer.stage import CLIENT, G
from tests.unit.groups.share.stage import ShareStage


def at_rest() -> ShareStage:
    stage = ShareStage()
    stage.join("a")
    stage.carry_out()
    stage.advance(1_001)
    stage.beat("a", 2)
    stage.beat("a", 3)
    return stage


def is_steady(stage: ShareStage, member: str = "a", epoch: int = 3) -> bool:
    request = ShareGroupHeartbeatRequest(group_id=G, member_id=member, member_epoch=epoch)
    return stage.groups.steady_heartbeat(request, CLIENT, stage.now_ms) is not None


def test_a_heartbeat_of_a_settled_group_is_steady() -> None:
    stage = at_rest()
    assert is_steady(stage)
    assert not is_steady(stage, epoch=2)
    assert not is_steady(stage, member="b")


def test_a_steady_heartbeat_extends_the_session() -> None:
    stage = at_rest()
    stage.advance(40_000)
    assert is_steady(stage)
    stage.advance(40_000)
    assert stage.group.members


def test_changes_of_the_group_or_of_topics_are_not_steady() -> None:
    stage = at_rest()
    stage.change_topics({"T": 4, "U": 1})
    assert not is_steady(stage)
    stage.beat("a", 3)
    assert is_steady(stage)
    stage.join("b")
    assert not is_steady(stage)


def test_a_group_with_pending_initialization_is_not_steady() -> None:
    stage = ShareStage()
    stage.join("a")
    stage.beat("a", 2)
    assert not is_steady(stage, epoch=2)


def test_cached_responses_of_removed_members_are_dropped() -> None:
    stage = at_rest()
    for name in "bcd":
        stage.join(name)
        stage.advance(1_001)
        for member in sorted(stage.group.members):
            stage.beat(member, stage.group.current_of(member).member_epoch)
        for member in sorted(stage.group.members):
            epoch = stage.group.current_of(member).member_epoch
            stage.beat(member, epoch)
            assert is_steady(stage, member, epoch)
        if name != "a":
            stage.beat(name, -1)
    assert len(stage.group.soft.answers) <= 2


def test_groups_of_other_types_are_not_steady() -> None:
    assert not is_steady(ShareStage())
