"""Sections say what the tables say, in sentences with their numbers."""

from __future__ import annotations

from datetime import UTC, datetime

from kafkalite.spark.report.model import BAD, GOOD, WARN
from kafkalite.spark.report.sections import count, sections

AT = datetime(2026, 1, 2, tzinfo=UTC)


def rule(name: str, failed: int, *, innocents: int = 0, taken: int = 0) -> dict[str, object]:
    return {
        "rule": name,
        "commits": 1000,
        "commits_failed": failed,
        "commits_undecidable": 1,
        "partitions_failed": failed,
        "transactions_aborted": 0,
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


def test_a_broker_that_takes_zombies_is_bad() -> None:
    totals = [rule(name, 1) for name in ("strict", "revocation-epoch", "assignment-epoch")]
    (section,) = sections({"fencing_totals": [*totals, rule("broker", 0, taken=2)]})
    assert section.tone == BAD


def test_no_ghosts_is_good_news() -> None:
    (section,) = sections({"ghost_totals": [], "ghosts": []})
    assert section.tone == GOOD
    assert "No ghosts" in section.headline


def test_lag_is_plotted_by_group() -> None:
    lag = [{"group_id": "g", "at": AT, "lag": 7}, {"group_id": "h", "at": AT, "lag": 70}]
    (section,) = sections({"expiry_by_fate": [], "lag_by_group": lag})
    assert "furthest behind was h, by 70" in section.detail
    assert section.plot.count("<circle") == 2


def test_stale_answers_without_resets_are_a_warning() -> None:
    row = {"broker": "b:1", "answers": 3, "certain": 1, "resets": 0}
    (section,) = sections({"stale_by_broker": [row]})
    assert section.tone == WARN
    assert "3 partitions were told older" in section.headline


def test_only_what_was_audited_is_told() -> None:
    assert sections({}) == []


def test_one_is_told_from_many() -> None:
    assert count(1, "ghost") == "1 ghost"
    assert count(1200, "ghost") == "1,200 ghosts"
    assert count(2, "transaction was", "transactions were") == "2 transactions were"
