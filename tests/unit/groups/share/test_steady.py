"""The short way of heartbeats; that it agrees with the long one the stage sees to."""

from __future__ import annotations

from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
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
    return stage.groups.steady(request, CLIENT, stage.now_ms) is not None


def test_a_member_at_rest_takes_the_short_way() -> None:
    stage = at_rest()
    assert is_steady(stage)
    assert not is_steady(stage, epoch=2)
    assert not is_steady(stage, member="b")


def test_the_short_way_prolongs_the_session() -> None:
    stage = at_rest()
    stage.advance(40_000)
    assert is_steady(stage)
    stage.advance(40_000)
    assert stage.group.members


def test_news_of_the_group_or_of_topics_take_the_long_way() -> None:
    stage = at_rest()
    stage.change_topics({"T": 4, "U": 1})
    assert not is_steady(stage)
    stage.beat("a", 3)
    assert is_steady(stage)
    stage.join("b")
    assert not is_steady(stage)


def test_a_group_that_waits_for_share_state_is_not_at_rest() -> None:
    stage = ShareStage()
    stage.join("a")
    stage.beat("a", 2)
    assert not is_steady(stage, epoch=2)


def test_what_members_that_left_were_told_is_not_kept() -> None:
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


def test_other_groups_do_not_take_it() -> None:
    assert not is_steady(ShareStage())
