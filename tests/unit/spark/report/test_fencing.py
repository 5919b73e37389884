"""Commits that fencing refuses are told in sentences with their numbers, rule by rule."""

from __future__ import annotations

import pytest

from kafkalite.spark.report.model import BAD, GOOD
from kafkalite.spark.report.sections import sections


def rule(name: str, failed: int, *, innocents: int = 0, taken: int = 0) -> dict[str, object]:
    return {
        "rule": name,
        "commits": 1000,
        "commits_failed": failed,
        "commits_undecidable": 1,
        "partitions_failed": failed,
        "transactions_aborted": 0,
        "fenced_by": "epoch",
        "zombies_refused": 5 - taken,
        "zombies_accepted": taken,
        "innocents_refused": innocents,
        "otherwise_than_broker": failed,
    }


def test_fencing_is_told_by_rule() -> None:
    totals = [
        rule("strict", 40, innocents=35),
        rule("revocation-epoch", 20),
        rule("assignment-epoch", 5),
        rule("broker", 5),
    ]
    (section,) = sections({"fencing_totals": totals})
    assert "1,000 commits" in section.headline
    assert "strict rule fails 40" in section.headline
    assert "answered as assignment-epoch" in section.detail
    assert section.tone == GOOD


def test_commits_that_no_rule_by_epochs_applies_to_are_told_apart() -> None:
    by_epoch = [
        rule(name, 0) for name in ("strict", "revocation-epoch", "assignment-epoch", "broker")
    ]
    classic = [rule(name, 7) | {"fenced_by": "generation"} for name in ("strict", "broker")]
    simple = rule("broker", 0) | {"fenced_by": "simple", "commits": 3}
    (section,) = sections({"fencing_totals": [*by_epoch, *classic, simple]})
    assert "1,000 commits in classic groups the broker refused 7; 5 partitions" in section.detail
    assert "3 commits came from nobody who is a member" in section.detail
    assert "1,000 commits by members with epochs" in section.headline


def test_where_no_rule_refuses_anything_only_that_is_told() -> None:
    names = ("strict", "revocation-epoch", "assignment-epoch", "broker")
    totals = [rule(name, 0) | {"commits_undecidable": 0} for name in names]
    (section,) = sections({"fencing_totals": totals})
    assert section.detail == (
        "No commit here tells the rules apart: this broker answered as all of them do."
    )
    assert section.plot == ""


@pytest.mark.parametrize(
    ("otherwise", "said"),
    [
        ((3, 0, 0), "answered as revocation-epoch and assignment-epoch do."),
        ((3, 1, 2), "answered as revocation-epoch does, but for 1 commit."),
        ((2, 2, 2), "Each rule decides 2 commits otherwise than this broker did."),
    ],
)
def test_of_rules_alike_none_is_named_alone(otherwise: tuple[int, ...], said: str) -> None:
    names = ("strict", "revocation-epoch", "assignment-epoch")
    totals = [rule(*each) for each in zip(names, otherwise, strict=True)]
    (section,) = sections({"fencing_totals": [*totals, rule("broker", 0)]})
    assert said in section.detail


def test_a_broker_that_takes_zombies_is_bad() -> None:
    totals = [rule(name, 1) for name in ("strict", "revocation-epoch", "assignment-epoch")]
    (section,) = sections({"fencing_totals": [*totals, rule("broker", 0, taken=2)]})
    assert section.tone == BAD
