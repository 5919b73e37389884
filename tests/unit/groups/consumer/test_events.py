"""Explain events of consumer groups."""

from __future__ import annotations

from kafkalite.groups.modern.events import (
    MAX_NAMED,
    group_epoch_raised_event,
    target_computed_event,
)
from tests.unit.groups.consumer.stage import REBALANCE_TIMEOUT_MS, G, Stage


def new_events(stage: Stage) -> list[tuple[str, str]]:
    """Return the new events since the last call."""
    texts = [(event.kind, event.text) for event in stage.events]
    assert all(event.subject == G for event in stage.events)
    stage.events.clear()
    return texts


def test_events_of_a_group_from_its_first_member_to_its_last() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    assert new_events(stage) == [
        ("joined", "member A joined"),
        ("rebalance", "group epoch 1 → 2: member A joined"),
        ("assigned", "target for group epoch 2 computed by uniform: changed for 1 member"),
    ]
    stage.beat("A", 2)
    assert new_events(stage) == []
    stage.join("B", assignor="range")
    assert new_events(stage) == [
        ("joined", "member B joined"),
        ("rebalance", "group epoch 2 → 3: member B joined"),
        (
            "postponed",
            (
                "target for group epoch 3 is delayed: the first heartbeat at or after "
                "22:13:21.000, 1000 ms after the previous target, computes it"
            ),
        ),
    ]
    stage.advance(1_001)
    stage.beat("A", 2)
    assert new_events(stage) == [
        ("assigned", "target for group epoch 3 computed by range: changed for 2 members")
    ]
    stage.beat("A", -1)
    assert new_events(stage) == [
        ("left", "member A removed: it left"),
        ("rebalance", "group epoch 3 → 4: member A was removed"),
    ]


def test_events_have_facts() -> None:
    stage = Stage({"T": 4})
    stage.join("A", instance_id="i")
    joined, rebalance, assigned = stage.events
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
    assert rebalance.facts == {"group_epoch": 2, "reasons": ["member A joined"]}
    assert assigned.facts == {"group_epoch": 2, "assignor": "uniform", "changed_members": ["A"]}
    stage.events.clear()
    stage.beat("A", -1, instance_id="i")
    assert stage.events[0].facts == {
        "member_id": "A",
        "instance_id": "i",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "member_epoch": 2,
        "partitions": 4,
    }


def test_every_reason_for_a_rebalance_has_a_text() -> None:
    stage = Stage({"T": 4, "U": 1})
    stage.join("A")
    stage.join("B", [], regex="U")
    stage.advance(1_001)
    new_events(stage)
    stage.beat("A", 2, topics=["T", "U"])
    assert new_events(stage)[0] == (
        "rebalance",
        "group epoch 3 → 4: member A subscribes to other topics",
    )
    stage.advance(1_001)
    stage.beat("A", stage.group.current_of("A").member_epoch, regex="U")
    assert new_events(stage)[0] == (
        "rebalance",
        "group epoch 4 → 5: member A subscribes by another regular expression",
    )
    stage.change_topics({"T": 4, "U": 2})
    stage.beat("A", stage.group.current_of("A").member_epoch)
    assert new_events(stage)[0] == (
        "rebalance",
        "group epoch 5 → 6: topic U has changed",
    )


def test_an_expression_with_new_topics_causes_a_rebalance() -> None:
    stage = Stage({"T": 4})
    stage.join("A", [], regex="T|U")
    assert new_events(stage) == [("joined", "member A joined")]
    stage.advance(0)
    assert new_events(stage) == [
        ("rebalance", "group epoch 1 → 2: regular expressions match other topics than before")
    ]


def test_topics_that_a_member_may_not_describe_have_an_event() -> None:
    stage = Stage({"T": 4, **{f"U{number:02}": 1 for number in range(11)}})
    stage.client = stage.client._replace(may_describe="T".__eq__)
    stage.join("A", [], regex=".*")
    new_events(stage)
    stage.advance(0)
    hidden = stage.events[0]
    assert (hidden.kind, hidden.facts["hidden_count"]) == ("refused", 11)
    assert hidden.text.endswith("U08, U09, …")
    assert stage.group.resolved_regexes[".*"].topics == {"T"}


def test_each_removal_of_a_member_has_its_reason() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    new_events(stage)
    for _ in range(REBALANCE_TIMEOUT_MS // 30_000):
        stage.advance(30_000)
        if "A" in stage.group.members:
            stage.beat("A", 2)
        stage.beat("B", 3)
    assert new_events(stage)[0] == (
        "fenced",
        "member A removed: it did not revoke its partitions within its rebalance timeout",
    )
    stage.advance(60_000)
    assert new_events(stage)[0] == (
        "expired",
        "member B removed: it sent no heartbeat within its session timeout",
    )


def test_a_static_member_leaves_temporarily_and_rejoins() -> None:
    stage = Stage({"T": 4})
    stage.join("A", instance_id="i")
    new_events(stage)
    stage.beat("A", -2, instance_id="i")
    assert new_events(stage) == [("left", "member A left temporarily as instance i")]
    stage.join("A2", instance_id="i")
    assert new_events(stage) == [
        ("rejoined", "member A2 rejoined as instance i, replacing member A")
    ]
    stage.beat("A2", -2, instance_id="i")
    stage.join("A2", instance_id="i")
    assert new_events(stage)[1] == ("rejoined", "member A2 rejoined as instance i")


def test_a_repeated_join_has_a_rejoined_event() -> None:
    stage = Stage({"T": 4})
    stage.join("A")
    new_events(stage)
    stage.join("A")
    assert new_events(stage) == [("rejoined", "member A rejoined")]


def test_the_number_of_members_in_an_event_is_limited() -> None:
    names = [f"m{number}" for number in range(MAX_NAMED + 5)]
    event = target_computed_event(G, 7, "uniform", names)
    assert event.facts["changed_members"] == sorted(names)[:MAX_NAMED]
    assert group_epoch_raised_event(G, 7, names).facts["reasons"] == names[:MAX_NAMED]
