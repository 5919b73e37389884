"""The audits find exactly what the scenarios contain; all scenarios are in one capture.

The local engine computes the tables of one seed. `test_local_engine.py` compares them with those of
Spark, row by row. Spark computes the tables of the other seeds.

The scenarios run on a real kafkalite broker. Its state machines give the expected result of each
commit: `kafkalite.groups.modern.offset_commit_fencing` has the reference implementation.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.lab.spark.audits import AUDITS, STATES, AuditOptions
from kafkalite.lab.spark.audits.commit_checks import classify
from kafkalite.lab.spark.audits.health import rebalances
from kafkalite.lab.spark.audits.members import ghosts
from kafkalite.lab.spark.dataframes import is_local, local_engine
from kafkalite.lab.spark.state.commits import commits
from kafkalite.lab.spark.state.epochs import steps
from kafkalite.lab.spark.state.generations import generations
from kafkalite.lab.spark.state.group_presence import empty_intervals
from kafkalite.lab.spark.state.heartbeats import heartbeats
from kafkalite.lab.spark.state.liveness import membership_requests
from kafkalite.lab.spark.state.protocol_changes import (
    classic_heartbeats,
    classic_intervals,
    select_with_epochs,
    select_within_intervals,
)
from tests.spark.truth.all_scenarios import Expected, run_scenarios
from tests.spark.truth.classic_ghosts import SESSION_MS
from tests.spark.truth.offset_expiry import RETENTION_MIN
from tests.spark.truth.requests_in_files import interpreted, laid_out
from tests.spark.truth.tracked_group import Classification, Key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

LOCAL_SEEDS = (1,)
SEEDS = [
    pytest.param(LOCAL_SEEDS, id="seed-1"),
    pytest.param((4, 7), id="seeds-4-7", marks=[pytest.mark.endurance, pytest.mark.timeout(900)]),
]
OPTIONS = AuditOptions(retention_ms=RETENTION_MIN * 60_000)
RULES = {
    "strict_decision": "strict",
    "revocation_epoch_decision": "revocation-epoch",
    "assignment_epoch_decision": "assignment-epoch",
}
AT_ONCE = 3


class Findings:
    """State and audit tables of one capture, each computed once."""

    def __init__(self, session: SparkSession, directory: Path, seeds: tuple[int, ...]) -> None:
        exchanges, self.played = run_scenarios(directory, seeds)
        self.requests = laid_out(session, exchanges, directory / "out", OPTIONS)
        for name in STATES:
            self.requests.state(name)
        frames = {
            name: frame
            for audit in AUDITS.values()
            for name, frame in audit.compute(self.requests, OPTIONS).items()
        }
        self.schemas = {name: frame.schema for name, frame in frames.items()}
        # Planning a query of Spark uses one core and takes longer than the query.
        with ThreadPoolExecutor(1 if is_local(session) else AT_ONCE) as pool:
            collected = pool.map(lambda frame: frame.collect(), frames.values())
            self.rows: dict[str, list[Row]] = dict(zip(frames, collected, strict=True))


@pytest.fixture(scope="module", params=SEEDS)
def findings(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Findings]:
    directory = tmp_path_factory.mktemp("scenarios")
    if request.param == LOCAL_SEEDS:
        with local_engine() as session:
            yield Findings(session, directory, request.param)
    else:
        spark = request.getfixturevalue("spark")
        with interpreted(spark):
            yield Findings(spark, directory, request.param)


def of_seed(rows: list[Row], played: Expected, column: str = "group_id") -> list[Row]:
    return [row for row in rows if row[column].startswith(f"{played.prefix}/")]


def of_epochs(findings: Findings) -> dict[str, Row]:
    rows = findings.rows["fencing_totals"]
    return {row.rule: row for row in rows if row.commit_kind == "epoch"}


def test_commits_are_classified_as_by_the_coordinator(findings: Findings) -> None:
    classified = {
        Key(row.connection, row.start_us, row.topic, row.partition): row
        for row in findings.requests.state("classified_commits").collect()
    }
    wrong: list[tuple[Key, Classification, Row | None]] = []
    undecided = 0
    for played in findings.played:
        for key, verdict in played.commit_fencing.commits.items():
            row = classified.get(key)
            if row is None:
                # The commit was only counted, so every rule must accept it.
                if verdict.truth != "current" or set(verdict.by_rule.values()) != {"accept"}:
                    wrong.append((key, verdict, row))
                continue
            undecided += row.classification == "undecidable"
            by_rule = {rule: row[column] for column, rule in RULES.items()}
            differs = [
                rule
                for rule, decision in by_rule.items()
                if decision not in {verdict.by_rule[rule], "undecidable"}
            ]
            if key in played.commit_fencing.undecidable:
                # The coordinator decided at one time; the capture shows only an interval.
                continue
            if differs or not agrees(row.classification, verdict.truth):
                wrong.append((key, verdict, row))
    assert wrong == []
    planted = sum(len(played.commit_fencing.undecidable) for played in findings.played)
    assert 0 < undecided <= planted


def test_counted_commits_are_accepted_by_all_rules_when_classified(
    findings: Findings,
) -> None:
    request = ("group_id", "connection", "start_us", "position")
    states = (findings.requests.state(name) for name in ("epochs", "owned_partitions", "topics"))
    epochs, intervals = (findings.requests.state(name) for name in ("epochs", "classic_intervals"))
    with_epoch = select_with_epochs(commits(findings.requests), epochs, intervals)
    every = classify(with_epoch, *states).where("classification != 'unclassified'").collect()
    checked = findings.requests.state("classified_commits").collect()
    assert {*map(text_of, checked)} <= {*map(text_of, every)}
    to_check = {tuple(row[name] for name in request) for row in checked}
    plain = [row for row in every if tuple(row[name] for name in request) not in to_check]
    rules = (*RULES, "broker_decision")
    assert {(row.classification, *(row[rule] for rule in rules)) for row in plain} == {
        ("current", *["accept"] * len(rules))
    }
    counted = Counter({row.group_id: 0 for row in plain})
    for row in findings.requests.state("current_commit_counts").collect():
        counted[row.group_id] += row.commits
    counted_requests = {tuple(row[name] for name in request) for row in plain}
    assert counted == Counter(group_id for group_id, *_ in counted_requests)


def test_results_without_repeated_heartbeats_equal_those_with_all(findings: Findings) -> None:
    requests = findings.requests
    every, distinct = heartbeats(requests), requests.state("heartbeats")
    assert distinct.count() < every.count() / 2
    all_requests, distinct_membership_requests = (
        membership_requests(requests),
        requests.state("membership_requests"),
    )
    assert distinct_membership_requests.count() < all_requests.count()
    intervals = classic_intervals(all_requests, OPTIONS.session_timeout_ms)
    assert sorted_rows(intervals) == sorted_rows(requests.state("classic_intervals"))
    names = requests.state("assignments"), requests.state("topics")
    every = every.unionByName(classic_heartbeats(all_requests, intervals, *names))
    assert sorted_rows(steps(every)) == sorted_rows(requests.state("epochs"))
    empty = [
        empty_intervals(each, OPTIONS.session_timeout_ms)
        for each in (all_requests, distinct_membership_requests)
    ]
    assert sorted_rows(empty[0]) == sorted_rows(empty[1])
    held, time_range = requests.state("owned_partitions"), requests.state("time_range")
    ghost_tables = [
        ghosts(each, held, requests.state("generations"), time_range, OPTIONS.session_timeout_ms)
        for each in (all_requests, distinct_membership_requests)
    ]
    assert sorted_rows(ghost_tables[0]) == sorted_rows(ghost_tables[1])
    led = select_within_intervals(all_requests, intervals, negated=True)
    assert sorted_rows(generations(led)) == sorted_rows(requests.state("generations"))
    assert sorted_rows(rebalances(all_requests, 5)) == sorted_rows(
        rebalances(distinct_membership_requests, 5)
    )


def sorted_rows(frame: DataFrame) -> list[str]:
    return sorted(map(text_of, frame.collect()))


def text_of(row: Row) -> str:
    return str(row.asDict())


def test_commits_of_classic_groups_are_classified_by_generation(findings: Findings) -> None:
    classified = {
        Key(row.connection, row.start_us, row.topic, row.partition): row
        for row in findings.requests.state("classified_by_generation").collect()
    }
    planted = {
        key: (verdict, key in played.classic_groups.truth.undecidable)
        for played in findings.played
        for key, verdict in played.classic_groups.truth.commits.items()
    }
    assert set(classified) == set(planted)
    for key, (verdict, is_undecidable) in planted.items():
        row = classified[key]
        assert (row.revocation_epoch_decision, row.assignment_epoch_decision) == ("n/a", "n/a")
        assert row.broker_decision == verdict.by_rule["strict"]
        expected = (verdict.by_rule["strict"], verdict.truth)
        actual = (row.strict_decision, row.classification)
        assert actual == (("undecidable",) * 2 if is_undecidable else expected)
    truths = {verdict.truth for verdict, _ in planted.values()}
    assert truths >= {"zombie", "still owned", "revoked", "never assigned", "departed", "current"}


def test_totals_include_classic_groups(findings: Findings) -> None:
    totals = {(row.commit_kind, row.rule): row for row in findings.rows["fencing_totals"]}
    scenarios = [played.classic_groups for played in findings.played]
    refused = {key[:2] for scenario in scenarios for key in scenario.truth.commits} - {
        key[:2] for scenario in scenarios for key in scenario.truth.undecidable
    }
    strict, broker = totals["generation", "strict"], totals["generation", "broker"]
    assert strict.commits == broker.commits == sum(scenario.commits for scenario in scenarios)
    assert strict.commits_failed == len(refused)
    assert strict.commits_undecidable == sum(
        len(scenario.truth.undecidable) for scenario in scenarios
    )
    assert broker.commits_failed == len({key[:2] for s in scenarios for key in s.truth.commits})
    assert strict.differs_from_broker == 0
    zombies = sum(
        commit.truth == "zombie" for s in scenarios for commit in s.truth.commits.values()
    )
    assert (strict.zombies_refused, broker.zombies_accepted) == (zombies, 0)
    assert ("generation", "revocation-epoch") not in totals
    simple = totals["simple", "broker"]
    assert (simple.commits, simple.commits_failed) == (
        sum(played.offset_expiry.alone for played in findings.played),
        0,
    )
    assert ("unknown", "broker") not in totals


def agrees(result: str, truth: str) -> bool:
    """Whether a result is right or undecidable; a lost response may hide a new owner."""
    return result in {truth, "undecidable"} or (
        truth == "zombie" and result in {"revoked", "departed"}
    )


def test_rule_that_agrees_with_the_broker_is_the_broker_s_rule(findings: Findings) -> None:
    totals = of_epochs(findings)
    assert totals["assignment-epoch"].differs_from_broker == 0
    assert totals["strict"].differs_from_broker > 0
    assert totals["revocation-epoch"].differs_from_broker > 0
    strict, relaxed = totals["strict"], totals["assignment-epoch"]
    assert strict.commits_failed > totals["revocation-epoch"].commits_failed
    assert totals["revocation-epoch"].commits_failed > relaxed.commits_failed
    assert {row.zombies_accepted for row in totals.values()} == {0}
    assert relaxed.zombies_refused == strict.zombies_refused > 0
    assert relaxed.still_owned_refused == 0 < strict.still_owned_refused


def test_aborted_transactions_are_counted_by_rule(findings: Findings) -> None:
    planted: Counter[str] = Counter()
    for played in findings.played:
        planted += played.transactional_commits.aborted
    totals = {rule: row.transactions_aborted for rule, row in of_epochs(findings).items()}
    assert totals == planted
    assert totals["strict"] > totals["revocation-epoch"] > totals["assignment-epoch"] > 0
    assert totals["broker"] == totals["assignment-epoch"]


def test_every_commit_of_a_zombie_is_among_the_cases(findings: Findings) -> None:
    cases = {
        Key(row.connection, row.start_us, row.topic, row.partition): row.classification
        for row in findings.rows["fencing_cases"]
    }
    zombies = [
        key
        for played in findings.played
        for key, verdict in played.commit_fencing.commits.items()
        if verdict.truth == "zombie" and key not in played.commit_fencing.undecidable
    ]
    assert zombies
    assert {cases[key] for key in zombies} <= {"zombie", "revoked"}
    assert sum(cases[key] == "zombie" for key in zombies) > 0.8 * len(zombies)


def test_ghosts_are_found_with_the_time_they_blocked_partitions(findings: Findings) -> None:
    for played in findings.played:
        ghosts = {row.group_id: row for row in of_seed(findings.rows["ghosts"], played)}
        expected_ghosts = {
            ghost.group_id: ghost for ghost in played.ghost_members if ghost.kind is not None
        }
        assert set(ghosts) == set(expected_ghosts)
        for group_id, truth in expected_ghosts.items():
            ghost = ghosts[group_id]
            assert ghost.kind == truth.kind
            assert ghost.is_avoidable_by_client_generated_id == truth.is_saved_by_own_id
            assert ghost.member_id in {*truth.member_ids, ""}
            assert ghost.partition_seconds_owned == pytest.approx(truth.held_s, abs=12)
            assert ghost.partition_seconds_unassigned == pytest.approx(truth.free_s, abs=12)


def test_ghosts_are_counted_by_kind(findings: Findings) -> None:
    totals = {
        (row.kind, row.is_avoidable_by_client_generated_id): row
        for row in findings.rows["ghost_totals"]
    }
    planted = Counter(
        (ghost.kind, ghost.is_saved_by_own_id)
        for played in findings.played
        for ghost in played.ghost_members
        if ghost.kind is not None
    )
    assert {kind: row.ghosts for kind, row in totals.items()} == planted
    assert len(planted) == 4


def test_classic_ghost_ends_with_the_session_timeout_of_its_join(findings: Findings) -> None:
    ghosts = [row for row in findings.rows["ghosts"] if row.protocol == "classic"]
    assert {row.kind for row in ghosts} == {"lost response", "no heartbeat", "stopped"}
    for row in ghosts:
        assert row.end_reason == "session timeout"
        assert row.ended_at - row.last_seen == timedelta(milliseconds=SESSION_MS)


def test_offsets_expire_as_in_the_broker(findings: Findings) -> None:
    for played in findings.played:
        rows = of_seed(findings.rows["offset_expiry"], played)
        visited = [row for row in rows if row.topic == "visited" and row.partition == 0]
        assert {(row.group_id, row.outcome) for row in visited} == played.offset_expiry.outcomes
        lost = {row.group_id: row.was_missing for row in visited if row.outcome == "lost"}
        missing = {name for name, was in played.offset_expiry.missing.items() if was}
        assert set(lost) == missing
        assert all(lost.values())


def test_offsets_expired_before_kip_211_are_found(findings: Findings) -> None:
    for played in findings.played:
        rows = of_seed(findings.rows["retained_offsets"], played)
        visited = [row for row in rows if row.topic == "visited" and row.partition == 0]
        spared = {row.group_id: row.fetched_at is not None for row in visited}
        assert spared == played.offset_expiry.spared
        for row in visited:
            assert row.expired_at - row.committed_at == timedelta(minutes=RETENTION_MIN)
            assert row.next_commit_at > row.expired_at
    # Offsets of a classic group expire after it became empty, not after their commit.
    classic = [row for row in findings.rows["retained_offsets"] if "/classic-" in row.group_id]
    assert classic
    assert all(row.expires_at > row.expired_at for row in classic)


def test_longer_retention_expires_no_offset_within_the_capture(findings: Findings) -> None:
    options = AuditOptions(retention_ms=7 * 24 * 3600 * 1000)
    rows = AUDITS["offsets"].compute(findings.requests, options)["offset_expiry"]
    assert {row.outcome for row in rows.select("outcome").distinct().collect()} == {"at risk"}


def test_lag_is_log_end_minus_committed_offset(findings: Findings) -> None:
    rows = findings.rows["consumer_lag"]
    lags = {row.group_id: row.lag for row in rows if row.group_id.endswith("/laggard")}
    assert lags == {
        name: lag for played in findings.played for name, lag in played.offset_expiry.lags.items()
    }


def test_stale_responses_are_found_with_their_consequences(findings: Findings) -> None:
    rows = findings.rows["stale_metadata"]
    connections = {
        row.client: row.connection
        for row in findings.requests.of("Metadata")
        .select("client", "connection")
        .distinct()
        .collect()
    }
    stale = [(connections[row.client], row.partition, row.kind, row.evidence) for row in rows]
    planted = {each for played in findings.played for each in played.stale_metadata.stale}
    assert len(stale) == len(planted)
    assert set(stale) == planted
    resets = {connections[row.client]: row.resets_after for row in rows if row.resets_after}
    assert resets == {
        line: count
        for played in findings.played
        for line, count in played.stale_metadata.consequences.items()
    }


def test_out_of_range_fetches_are_found_with_causes_and_cost(findings: Findings) -> None:
    connections = {
        row.client: row.connection
        for row in findings.requests.of("Fetch").select("client", "connection").distinct().collect()
    }
    resets = {
        connections[row.client]: (
            row.cause,
            row.fetch_offset,
            row.reset_policy,
            row.reset_to,
            row.records_reread,
            row.records_skipped,
        )
        for row in findings.rows["offset_resets"]
    }
    planted = {
        line: reset
        for played in findings.played
        for line, reset in played.stale_metadata.resets.items()
    }
    assert resets == planted
    refused = {
        (row.client_id, row.error): (row.occurrences, row.lowest_epoch)
        for row in findings.rows["leader_epoch_errors"]
    }
    assert refused == {
        client: times
        for played in findings.played
        for client, times in played.stale_metadata.refused.items()
    }


def test_zombie_writes_and_takeovers_are_found(findings: Findings) -> None:
    zombies = {
        (row.client, int(row.at.timestamp() * 1_000_000 + 0.5)): row.outcome
        for row in findings.rows["zombie_writes"]
    }
    planted = [
        outcome
        for played in findings.played
        for outcome in played.transactional_producers.zombies.values()
    ]
    assert sorted(zombies.values()) == sorted(planted)
    fences = findings.rows["producer_fences"]
    takeovers = {
        (row.transactional_id, row.producer_epoch) for row in fences if row.kind == "takeover"
    }
    assert takeovers == {
        takeover
        for played in findings.played
        for takeover in played.transactional_producers.takeovers
    }
    unused = {
        (row.transactional_id, row.producer_epoch)
        for row in fences
        if row.kind == "takeover" and not row.has_writes
    }
    fenced_by_admin = {
        fence for played in findings.played for fence in played.transactional_producers.admin_fences
    }
    assert fenced_by_admin <= unused


def test_transactions_have_the_expected_ends(findings: Findings) -> None:
    rows = sorted(findings.rows["transactions"], key=lambda row: row.began_at)
    ends: dict[str, list[str]] = {}
    for row in rows:
        ends.setdefault(row.transactional_id, []).append(row.outcome)
    planted = {
        name: expected
        for played in findings.played
        for truth in (played.transactional_producers, played.transactional_commits)
        for name, expected in truth.ends.items()
    }
    # A write that a faulty broker accepts from a zombie looks like another transaction.
    leaky = {name for name in ends if name.endswith("/leaky")}
    assert {name: end for name, end in ends.items() if name not in leaky} == {
        name: end for name, end in planted.items() if name not in leaky
    }
    assert all(ends[name][0] == "fenced" for name in leaky)


def test_producers_of_connect_tasks_are_numbered(findings: Findings) -> None:
    rows = [row for row in findings.rows["connect_tasks"] if row.connector is not None]
    groups = {played.prefix: played.transactional_producers for played in findings.played}
    for prefix, truth in groups.items():
        tasks = {
            (row.connector, row.task, row.generation): (row.end_reason, row.writes_after_end)
            for row in rows
            if row.connect_group.startswith(f"{prefix}-")
        }
        assert tasks == truth.tasks
    assert sum(row.writes_after_end for row in rows) == len(groups)
    assert not any(row.accepted_writes_after_end for row in rows)


def test_fencing_of_connect_tasks_is_checked(findings: Findings) -> None:
    for played in findings.played:
        rows = {
            (row.connector, row.generation): (
                row.tasks, row.previous_tasks, row.tasks_fenced, row.tasks_unfenced,
                row.tasks_started_early,
            )
            for row in findings.rows["connect_generations"]
            if row.connect_group.startswith(f"{played.prefix}-")
        }  # fmt: skip
        assert rows == played.transactional_producers.rounds
    assert all(
        row.configured_at < row.task_count_at for row in findings.rows["connect_generations"]
    )


def test_health_counts_every_request_once(findings: Findings) -> None:
    latency = {row.api: row for row in findings.rows["latency"]}
    envelopes = findings.requests.envelopes()
    assert sum(row.requests for row in latency.values()) == envelopes.count()
    assert latency["OffsetCommit"].p50_ms <= latency["OffsetCommit"].p99_ms
    assert latency["ConsumerGroupHeartbeat"].unanswered > 0
    errors = {(row.api, row.name) for row in findings.rows["error_counts"]}
    assert ("OffsetCommit", "STALE_MEMBER_EPOCH") in errors
    assert ("Fetch", "OFFSET_OUT_OF_RANGE") in errors
    assert sum(row.requests for row in findings.rows["load"]) == envelopes.count()
    for row in findings.rows["error_counts"]:
        assert 0 <= row.expected <= row.occurrences
        if (row.api, row.name) == ("JoinGroup", "MEMBER_ID_REQUIRED"):
            assert row.expected == row.occurrences
        if row.api == "OffsetCommit":
            assert row.expected == 0
    assert any(row.rebalances for row in findings.rows["rebalances"])
    assert any(row.bytes_in for row in findings.rows["partition_traffic"])
    assert findings.rows["clients"]


def types_of(schema: StructType) -> dict[str, Any]:
    """Return the types of columns by their names; the local engine has schemas of Arrow."""
    columns: Any = schema
    kind = "type" if isinstance(schema, pa.Schema) else "dataType"
    return {column.name: getattr(column, kind) for column in columns}


def test_audit_tables_have_the_documented_columns(findings: Findings) -> None:
    # The proofs are added when the tables are written.
    described = {table.name: table for audit in AUDITS.values() for table in audit.tables}
    assert set(findings.schemas) == set(described)
    for name, schema in findings.schemas.items():
        assert types_of(schema) == types_of(described[name].schema)
        assert all(column.about for column in described[name].columns)


def test_state_tables_have_the_documented_columns(findings: Findings) -> None:
    for name, state in STATES.items():
        found = types_of(findings.requests.state(name).schema)
        assert list(found.items()) == list(types_of(state.table.schema).items())
