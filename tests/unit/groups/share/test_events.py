"""Explain events of share groups."""

from __future__ import annotations

from kafkalite.groups.share.events import format_topic_names
from tests.unit.groups.share.stage import ShareStage


def test_joins_and_removals_have_events() -> None:
    stage = ShareStage({"T": 1})
    stage.join("a")
    assert [event.kind for event in stage.events] == ["joined", "rebalance", "assigned"]
    assert stage.events[0].facts["members"] == 1
    stage.carry_out()
    (ready,) = stage.events
    assert ready.text == "share state of 1 partition of T is initialized"
    stage.advance(1_001)
    stage.beat("a", 2)
    assert [event.kind for event in stage.events] == ["rebalance", "assigned"]
    stage.join("a")
    assert [event.text for event in stage.events] == ["member a rejoined"]
    stage.beat("a", 3)
    assert stage.events == []
    stage.beat("a", -1)
    left, moved = stage.events
    assert (left.kind, left.facts["partitions"], left.facts["member_epoch"]) == ("left", 1, 3)
    assert moved.facts["reasons"] == ["member a removed: it left"]


def test_the_number_of_named_topics_is_limited() -> None:
    assert format_topic_names([]) == "nothing"
    assert format_topic_names(["b", "a"]) == "a, b"
    assert (
        format_topic_names([f"t{number}" for number in range(8)]) == "t0, t1, t2, t3, t4 and 3 more"
    )
    stage = ShareStage({})
    stage.join("a", [f"t{number}" for number in range(1_000)])
    assert len(str(stage.events)) < 1_000
