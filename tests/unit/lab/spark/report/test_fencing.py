"""The report's section on offset commits that fencing rules refuse."""

from __future__ import annotations

import pytest

from kafkalite.lab.spark.report.model import BAD, GOOD
from kafkalite.lab.spark.report.sections import sections


def rule(
    name: str, failed: int, *, still_owned: int = 0, accepted_zombies: int = 0
) -> dict[str, object]:
    return {
        "rule": name,
        "commits": 1000,
        "commits_failed": failed,
        "commits_undecidable": 1,
        "partitions_failed": failed,
        "transactions_aborted": 0,
        "commit_kind": "epoch",
        "zombies_refused": 5 - accepted_zombies,
        "zombies_accepted": accepted_zombies,
        "still_owned_refused": still_owned,
        "differs_from_broker": failed,
    }


def test_headline_compares_rules() -> None:
    totals = [
        rule("strict", 40, still_owned=35),
        rule("revocation-epoch", 20),
        rule("assignment-epoch", 5),
        rule("broker", 5),
    ]
    (section,) = sections({"fencing_totals": totals})
    assert "1,000 commits" in section.headline
    assert "strict rule refuses 40" in section.headline
    assert "decided as the rule assignment-epoch" in section.detail
    assert section.tone == GOOD


def test_commits_without_member_epochs_are_reported_separately() -> None:
    by_epoch = [
        rule(name, 0) for name in ("strict", "revocation-epoch", "assignment-epoch", "broker")
    ]
    classic = [rule(name, 7) | {"commit_kind": "generation"} for name in ("strict", "broker")]
    simple = rule("broker", 0) | {"commit_kind": "simple", "commits": 3}
    (section,) = sections({"fencing_totals": [*by_epoch, *classic, simple]})
    assert (
        "Classic groups: the broker refused 7 of 1,000 commits, of which 5 partitions"
        in section.detail
    )
    assert "3 commits came from clients that are not group members" in section.detail
    assert "1,000 commits by members with epochs" in section.headline


def test_no_refused_commits_gives_a_section_without_plot() -> None:
    names = ("strict", "revocation-epoch", "assignment-epoch", "broker")
    totals = [rule(name, 0) | {"commits_undecidable": 0} for name in names]
    (section,) = sections({"fencing_totals": totals})
    assert section.detail == "All rules agree with the broker's decision for every commit."
    assert section.plot is None


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ((3, 0, 0), "decided as the rules revocation-epoch and assignment-epoch."),
        ((3, 1, 2), "decided as the rule revocation-epoch, except for 1 commit."),
        ((2, 2, 2), "Each rule differs from the broker's decision for 2 commits."),
    ],
)
def test_rules_closest_to_the_broker_are_named(differences: tuple[int, ...], expected: str) -> None:
    names = ("strict", "revocation-epoch", "assignment-epoch")
    totals = [rule(*each) for each in zip(names, differences, strict=True)]
    (section,) = sections({"fencing_totals": [*totals, rule("broker", 0)]})
    assert expected in section.detail


def test_broker_that_accepts_commits_of_zombies_is_bad() -> None:
    totals = [rule(name, 1) for name in ("strict", "revocation-epoch", "assignment-epoch")]
    (section,) = sections({"fencing_totals": [*totals, rule("broker", 0, accepted_zombies=2)]})
    assert section.tone == BAD
