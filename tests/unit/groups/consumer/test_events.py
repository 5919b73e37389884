"""What is told of a group: who came and went, and why it rebalances."""

from __future__ import annotations

from kafkalite.groups.events import MOST_NAMED, assigned, moved_on
from tests.unit.groups.consumer.stage import REBALANCE_TIMEOUT_MS, G, Stage


def heard(stage: Stage) -> list[tuple[str, str]]:
    """Return what was told since the last time."""
    told = [(event.kind, event.text) for event in stage.told]
    assert all(event.subject == G for event in stage.told)
    stage.told.clear()
    return told


def test_a_group_is_told_of_from_its_first_member_to_its_last() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    assert heard(stage) == [
        ("joined", "member A joined"),
        ("rebalance", "group epoch 1 → 2: member A joined"),
        ("assigned", "target for group epoch 2 computed by uniform: it changes for 1 member"),
    ]
    stage.beat("A", 2)
    assert heard(stage) == []
    stage.join("B", assignor="range")
    assert heard(stage) == [
        ("joined", "member B joined"),
        ("rebalance", "group epoch 2 → 3: member B joined"),
        (
            "postponed",
            (
                "target for group epoch 3 is put off: it comes with the first heartbeat at "
                "22:13:21.000 or later, 1000 ms after the last one"
            ),
        ),
    ]
    stage.advance(1_001)
    stage.beat("A", 2)
    assert heard(stage) == [
        ("assigned", "target for group epoch 3 computed by range: it changes for 2 members")
    ]
    stage.beat("A", -1)
    assert heard(stage) == [
        ("left", "member A is gone: it left"),
        ("rebalance", "group epoch 3 → 4: member A is gone"),
    ]


def test_facts_say_it_for_programs() -> None:
    stage = Stage({"T": 4})
    stage.join("A", instance_id="i")
    joined, rebalance, assigned = stage.told
    assert joined.facts == {
        "member_id": "A",
        "instance_id": "i",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "protocol": "consumer",
        "topics": ["T"],
        "regex": None,
        "members": 1,
    }
    assert rebalance.facts == {"group_epoch": 2, "why": ["member A joined"]}
    assert assigned.facts == {"group_epoch": 2, "assignor": "uniform", "changed_for": ["A"]}
    stage.told.clear()
    stage.beat("A", -1, instance_id="i")
    assert stage.told[0].facts == {
        "member_id": "A",
        "instance_id": "i",
        "client_id": "client",
        "member_epoch": 2,
        "partitions": 4,
    }


def test_every_reason_to_rebalance_has_its_words() -> None:
    stage = Stage({"T": 4, "U": 1})
    stage.join("A")
    stage.join("B", [], regex="U")
    stage.advance(1_001)
    heard(stage)
    stage.beat("A", 2, topics=["T", "U"])
    assert heard(stage)[0] == (
        "rebalance",
        "group epoch 3 → 4: member A subscribes to other topics",
    )
    stage.advance(1_001)
    stage.beat("A", stage.group.current_of("A").member_epoch, regex="U")
    assert heard(stage)[0] == (
        "rebalance",
        "group epoch 4 → 5: member A subscribes by another expression",
    )
    stage.change_topics({"T": 4, "U": 2})
    stage.beat("A", stage.group.current_of("A").member_epoch)
    assert heard(stage)[0] == (
        "rebalance",
        "group epoch 5 → 6: topic U has changed",
    )


def test_an_expression_that_is_resolved_anew_rebalances() -> None:
    stage = Stage({"T": 4})
    stage.join("A", [], regex="T|U")
    assert heard(stage) == [("joined", "member A joined")]
    stage.advance(0)
    assert heard(stage) == [
        ("rebalance", "group epoch 1 → 2: expressions stand for other topics than before")
    ]


def test_a_member_may_go_in_different_ways() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    heard(stage)
    for _ in range(REBALANCE_TIMEOUT_MS // 30_000):
        stage.advance(30_000)
        if "A" in stage.group.members:
            stage.beat("A", 2)
        stage.beat("B", 3)
    assert heard(stage)[0] == (
        "fenced",
        "member A is gone: it did not give its partitions up within its rebalance timeout",
    )
    stage.advance(60_000)
    assert heard(stage)[0] == (
        "expired",
        "member B is gone: it was silent for longer than its session timeout",
    )


def test_a_static_member_goes_and_comes_back() -> None:
    stage = Stage({"T": 4})
    stage.join("A", instance_id="i")
    heard(stage)
    stage.beat("A", -2, instance_id="i")
    assert heard(stage) == [("left", "member A is away: instance i means to come back")]
    stage.join("A2", instance_id="i")
    assert heard(stage) == [
        ("rejoined", "member A2 came back as instance i, in the place of member A")
    ]
    stage.beat("A2", -2, instance_id="i")
    stage.join("A2", instance_id="i")
    assert heard(stage)[1] == ("rejoined", "member A2 came back as instance i")


def test_a_repeated_join_is_told_as_such() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    heard(stage)
    stage.join("A")
    assert heard(stage) == [("rejoined", "member A joined again")]


def test_not_every_member_of_a_large_group_is_named() -> None:
    names = [f"m{number}" for number in range(MOST_NAMED + 5)]
    told = assigned(G, 7, "uniform", names)
    assert told.facts["changed_for"] == sorted(names)[:MOST_NAMED]
    assert moved_on(G, 7, names).facts["why"] == names[:MOST_NAMED]
