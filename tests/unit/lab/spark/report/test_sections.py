"""The report's sections: headlines, details and listings computed from rows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkalite.lab.spark.report.formatting import MAX_ROWS, listing
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.lab.spark.report.sections import sections

if TYPE_CHECKING:
    from kafkalite.lab.spark.report.formatting import Row

AT = datetime(2026, 1, 2, tzinfo=UTC)
GHOST = (
    "group_id",
    "member_id",
    "kind",
    "client",
    "client_id",
    "end_reason",
    "is_avoidable_by_client_generated_id",
    "partitions_owned",
)
CONNECT = (
    "connect_group",
    "connector",
    "generation",
    "configured_at",
    "task_count_at",
    "tasks",
    "previous_tasks",
    "tasks_fenced",
    "tasks_unfenced",
    "tasks_started_early",
)


def labels(section: Section) -> list[str]:
    assert section.plot is not None
    return re.findall(r'<span class="label"[^>]*>([^<]*)<', section.plot)


def latency(api: str, ms: float | None) -> dict[str, object]:
    return {"api": api, "requests": 9, "p50_ms": ms, "p99_ms": ms}


def test_long_polls_are_excluded_from_the_slowest_api() -> None:
    rows: list[Row] = [latency("Fetch", 501.5), latency("Metadata", 2.5), latency("Produce", None)]
    (section,) = sections({"latency": rows})
    assert "slowest API, excluding long polls: Metadata (p99 2.5 ms)" in section.headline
    assert section.plot is not None
    assert 'class="box plain"' in section.plot
    (section,) = sections({"latency": rows[:1]})
    assert section.headline.startswith("9 requests of 1 API; 0 errors")


def test_latency_is_sorted_by_its_value() -> None:
    rows: list[Row] = [latency("Fetch", 2.5), latency("Produce", 501.5), latency("Metadata", 7.0)]
    (section,) = sections({"latency": rows})
    assert labels(section) == ["Produce", "Metadata", "Fetch"]


def error(occurrences: int, expected: int | None) -> Row:
    columns = dict.fromkeys(("api", "name", "clients", "first_at", "last_at"))
    return {**columns, "occurrences": occurrences, "expected": expected}


def test_errors_of_normal_use_do_not_affect_health() -> None:
    (section,) = sections({"latency": [], "error_counts": [error(2, 2), error(1, 1)]})
    assert section.tone == GOOD
    assert "; 0 errors;" in section.headline
    assert "Not counted as errors: 3 error codes of normal use" in section.detail
    assert section.listings[0].rows
    (section,) = sections({"latency": [], "error_counts": [error(3, 2), error(1, None)]})
    assert section.tone == WARN
    assert "; 2 errors;" in section.headline


def test_title_of_a_shortened_listing_has_the_number_of_rows() -> None:
    rows = [{"at": number, "error": 47} for number in range(MAX_ROWS + 1)]
    assert listing("Writes", rows, ("at",)).title == f"Writes (first {MAX_ROWS} rows)"
    assert listing("Writes", rows[: MAX_ROWS - 1], ("at",)).title == "Writes"


def test_error_codes_are_shown_as_names() -> None:
    rows: list[dict[str, object]] = [{"error": 47}, {"error": "NONE"}, {"error": None}]
    shown = (("INVALID_PRODUCER_EPOCH",), ("NONE",), (None,))
    assert listing("Writes", rows, ("error",)).rows == shown


def test_section_without_ghosts_is_good() -> None:
    (section,) = sections({"ghost_totals": [], "ghosts": []})
    assert section.tone == GOOD
    assert "No ghosts" in section.headline


def test_rebalance_that_waited_names_the_client() -> None:
    wait: Row = {
        "group_id": "shop",
        "member_id": "m",
        "client": "10.0.0.7:40000",
        "client_id": "slow",
        "asked_at": AT,
        "until": AT,
        "seconds": 62.4,
        "outcome": "rejoined",
    }
    causes: list[Row] = [
        {"cause": "left", "departures": 2},
        {"cause": "missed the rebalance timeout", "departures": 1},
    ]
    (section,) = sections(
        {
            "ghost_totals": [],
            "ghosts": [],
            "rebalance_waits": [wait],
            "departures_by_cause": causes,
        }
    )
    assert section.tone == WARN
    assert section.headline.endswith(
        "A rebalance of group shop waited 62 s for client slow at 10.0.0.7:40000."
    )
    assert section.detail == "Departures by cause: 2 left, 1 missed the rebalance timeout."


def test_lag_is_plotted_by_group() -> None:
    lag = [{"group_id": "g", "at": AT, "lag": 7}, {"group_id": "h", "at": AT, "lag": 70}]
    (section,) = sections({"expiry_by_outcome": [], "lag_by_group": lag})
    assert "largest lag was 70 (h)" in section.detail
    assert section.plot is not None
    assert sorted(re.findall(r"<title>(.*?)</title>", section.plot)) == ["g", "h"]


def test_null_names_are_shown_as_unnamed() -> None:
    ghost: Row = dict.fromkeys(GHOST) | {
        "last_seen": AT,
        "ended_at": AT,
        "partition_seconds_owned": 1.0,
        "partition_seconds_unassigned": 0.0,
    }
    totals: list[Row] = [
        {
            "kind": "crashed",
            "is_avoidable_by_client_generated_id": None,
            "ghosts": 1,
            "partition_seconds": 1.0,
        }
    ]
    (members,) = sections({"ghost_totals": totals, "ghosts": [ghost]})
    assert labels(members) == ["unnamed"]
    lag: list[Row] = [{"group_id": None, "at": AT, "lag": 7}, {"group_id": "h", "at": AT, "lag": 5}]
    (offsets,) = sections({"expiry_by_outcome": [], "lag_by_group": lag})
    assert "largest lag was 7 (unnamed)" in offsets.detail
    fence = {
        "transactional_id": None,
        "kind": "takeover",
        "producer_epoch": 1,
        "client": None,
        "at": AT,
    }
    found = {"transaction_ends": [], "takeovers": [{"takeovers": 1}], "zombie_outcomes": []}
    (writers,) = sections({**found, "producer_fences": [fence]})
    assert writers.plot is not None
    assert "epoch 1 to unnamed" in writers.plot
    row = {"broker": None, "answers": 3, "certain": 1, "resets": 0}
    (metadata,) = sections({"stale_by_broker": [row]})
    assert labels(metadata) == ["unnamed"]


def test_stale_responses_without_resets_are_a_warning() -> None:
    row = {"broker": "b:1", "answers": 3, "certain": 1, "resets": 0}
    (section,) = sections({"stale_by_broker": [row]})
    assert section.tone == WARN
    assert "3 stale responses: older than" in section.headline


def test_no_tables_give_no_sections() -> None:
    assert sections({}) == []


def test_resets_caused_by_a_broker_behind_are_bad() -> None:
    causes = [{"cause": "broker behind", "resets": 1, "again": 1200, "skipped": 0}]
    (section,) = sections({"stale_by_broker": [], "resets_by_cause": causes})
    assert section.tone == BAD
    assert "Out of range 1 time (broker behind): 1,200 records read again" in section.detail


def test_unfenced_connect_tasks_are_reported() -> None:
    rounds = [dict.fromkeys(CONNECT, 0) | {"tasks_unfenced": 2, "tasks_started_early": 1}]
    found = {"producer_fences": [], "takeovers": [{"takeovers": 0}], "transaction_ends": []}
    (section,) = sections({**found, "zombie_outcomes": [], "connect_generations": rounds})
    assert "2 previous tasks not fenced; 1 task started before" in section.detail


def test_expiry_before_kip_211_is_reported() -> None:
    retained = [{"offsets": 3, "groups": 2, "rewound": 1}]
    (section,) = sections({"expiry_by_outcome": [], "retained": retained})
    assert (
        "without KIP-211 would have expired 3 more offsets of 2 groups; 1 of them" in section.detail
    )
    (section,) = sections({"expiry_by_outcome": [], "retained": [dict.fromkeys(retained[0], 0)]})
    assert section.detail == ""


def test_accepted_requests_with_outdated_partition_epochs_are_bad() -> None:
    refused = {"error": "INVALID_PARTITION_EPOCH", "requests": 2}
    (section,) = sections({"stale_by_broker": [], "outdated_by_error": [refused]})
    assert section.tone == WARN
    assert section.detail == "2 partitions in requests had outdated epochs; brokers accepted 0."
    accepted = {"error": "NONE", "requests": 1}
    (section,) = sections({"stale_by_broker": [], "outdated_by_error": [refused, accepted]})
    assert section.tone == BAD
    assert section.detail == "3 partitions in requests had outdated epochs; brokers accepted 1."
    (section,) = sections({"stale_by_broker": []})
    assert (section.tone, section.detail) == (GOOD, "")
