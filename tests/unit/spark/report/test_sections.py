"""Sections say what the tables say, in sentences with their numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkalite.spark.report.model import BAD, GOOD, WARN
from kafkalite.spark.report.sections import sections
from kafkalite.spark.report.words import FEW, count, listing

if TYPE_CHECKING:
    from kafkalite.spark.report.words import Row

AT = datetime(2026, 1, 2, tzinfo=UTC)
GHOST = (
    "group_id",
    "member_id",
    "kind",
    "client",
    "would_own_id_save",
    "partitions_held",
)
CONNECT = (
    "connect_group",
    "connector",
    "generation",
    "configured_at",
    "counted_at",
    "tasks",
    "tasks_before",
    "tasks_fenced",
    "tasks_unfenced",
    "tasks_early",
)


def latency(api: str, ms: float | None) -> dict[str, object]:
    return {"api": api, "requests": 9, "p50_ms": ms, "p99_ms": ms}


def test_who_waits_for_data_is_not_slow() -> None:
    rows: list[Row] = [latency("Fetch", 501.5), latency("Metadata", 2.5), latency("Produce", None)]
    (section,) = sections({"latency": rows})
    assert "the slowest that waits for nobody is Metadata, 2.5 ms" in section.headline
    assert 'class="plain"' in section.plot
    (section,) = sections({"latency": rows[:1]})
    assert section.headline.startswith("9 requests of 1 API; 0 errors")


def test_a_listing_says_where_there_are_more_rows() -> None:
    rows = [{"at": number, "error": 47} for number in range(FEW + 1)]
    assert listing("Writes", rows, ("at",)).title == f"Writes (the first {FEW})"
    assert listing("Writes", rows[:FEW], ("at",)).title == "Writes"


def test_errors_are_listed_by_their_names() -> None:
    rows: list[dict[str, object]] = [{"error": 47}, {"error": "NONE"}, {"error": None}]
    shown = (("INVALID_PRODUCER_EPOCH",), ("NONE",), (None,))
    assert listing("Writes", rows, ("error",)).rows == shown


def test_no_ghosts_is_good_news() -> None:
    (section,) = sections({"ghost_totals": [], "ghosts": []})
    assert section.tone == GOOD
    assert "No ghosts" in section.headline


def test_lag_is_plotted_by_group() -> None:
    lag = [{"group_id": "g", "at": AT, "lag": 7}, {"group_id": "h", "at": AT, "lag": 70}]
    (section,) = sections({"expiry_by_fate": [], "lag_by_group": lag})
    assert "furthest behind was h, by 70" in section.detail
    assert section.plot.count("<circle") == 2


def test_groups_without_a_legible_name_are_told_all_the_same() -> None:
    ghost: Row = dict.fromkeys(GHOST) | {
        "last_sign": AT,
        "until": AT,
        "partition_seconds_held": 1.0,
        "partition_seconds_kept_free": 0.0,
    }
    totals: list[Row] = [
        {"kind": "crashed", "would_own_id_save": None, "ghosts": 1, "partition_seconds": 1.0}
    ]
    (members,) = sections({"ghost_totals": totals, "ghosts": [ghost]})
    assert ">nameless<" in members.plot
    lag: list[Row] = [{"group_id": None, "at": AT, "lag": 7}, {"group_id": "h", "at": AT, "lag": 5}]
    (offsets,) = sections({"expiry_by_fate": [], "lag_by_group": lag})
    assert "furthest behind was nameless, by 7" in offsets.detail
    fence = {
        "transactional_id": None,
        "kind": "takeover",
        "producer_epoch": 1,
        "client": None,
        "at": AT,
    }
    found = {"transaction_ends": [], "takeovers": [{"takeovers": 1}], "zombie_outcomes": []}
    (writers,) = sections({**found, "producer_fences": [fence]})
    assert "epoch 1 to nameless" in writers.plot
    row = {"broker": None, "answers": 3, "certain": 1, "resets": 0}
    (metadata,) = sections({"stale_by_broker": [row]})
    assert ">nameless<" in metadata.plot


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


def test_consumers_that_a_broker_behind_sent_back_are_told() -> None:
    causes = [{"cause": "broker behind", "resets": 1, "again": 1200, "skipped": 0}]
    (section,) = sections({"stale_by_broker": [], "resets_by_cause": causes})
    assert section.tone == BAD
    assert "1 offset was out of range (broker behind): 1,200 records read again" in section.detail


def test_tasks_of_connect_that_went_unfenced_are_told() -> None:
    rounds = [dict.fromkeys(CONNECT, 0) | {"tasks_unfenced": 2, "tasks_early": 1}]
    found = {"producer_fences": [], "takeovers": [{"takeovers": 0}], "transaction_ends": []}
    (section,) = sections({**found, "zombie_outcomes": [], "connect_generations": rounds})
    assert "2 tasks of the set before went unfenced, 1 task began" in section.detail


def test_what_an_older_rule_had_taken_away_is_told() -> None:
    spared = [{"offsets": 3, "groups": 2, "rewound": 1}]
    (section,) = sections({"expiry_by_fate": [], "spared": spared})
    assert "before KIP-211 had taken 3 offsets more, of 2 groups; 1 time" in section.detail
    (section,) = sections({"expiry_by_fate": [], "spared": [dict.fromkeys(spared[0], 0)]})
    assert section.detail == ""
