"""The audits find all that stories planted, and nothing else; all stories are in one capture.

The stories are played on a real broker of ours, whose machines say of each commit what every rule
makes of it: `kafkalite.groups.fencing` is the judge of the SQL.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.audits import AUDITS, STATE_TABLES, STATES, TABLES, AuditOptions
from tests.spark.truth.crew import Key
from tests.spark.truth.desk import interpreted, laid_out
from tests.spark.truth.forgotten import RETENTION_MIN
from tests.spark.truth.lingering import SESSION_MS
from tests.spark.truth.play import Played, play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

SEEDS = [
    pytest.param((1,), id="seed-1"),
    pytest.param((4, 7), id="seeds-4-7", marks=[pytest.mark.endurance, pytest.mark.timeout(900)]),
]
OPTIONS = AuditOptions(retention_ms=RETENTION_MIN * 60_000)
RULES = {"strict": "strict", "revocation": "revocation-epoch", "assignment": "assignment-epoch"}
AT_ONCE = 3


class Findings:
    """The states and the audits of one capture, each made once."""

    def __init__(self, spark: SparkSession, directory: Path, seeds: tuple[int, ...]) -> None:
        said, self.played = play(directory, seeds)
        self.requests = laid_out(spark, said, directory / "out", OPTIONS)
        for name in STATES:
            self.requests.state(name)
        frames = {
            name: frame
            for audit in AUDITS.values()
            for name, frame in audit.tables(self.requests, OPTIONS).items()
        }
        self.schemas = {name: frame.schema for name, frame in frames.items()}
        # Planning keeps one core busy, and takes longer than the work.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            collected = pool.map(lambda frame: frame.collect(), frames.values())
            self.rows: dict[str, list[Row]] = dict(zip(frames, collected, strict=True))


@pytest.fixture(scope="module", params=SEEDS)
def found(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Findings]:
    with interpreted(spark):
        yield Findings(spark, tmp_path_factory.mktemp("stories"), request.param)


def of_seed(rows: list[Row], played: Played, column: str = "group_id") -> list[Row]:
    return [row for row in rows if row[column].startswith(f"{played.prefix}/")]


def test_every_commit_is_judged_as_the_coordinator_itself_judges_it(found: Findings) -> None:
    judged = {
        Key(row.connection, row.start_us, row.topic, row.partition): row
        for row in found.requests.state("judged_commits").collect()
    }
    wrong = []
    undecided = 0
    for played in found.played:
        for key, verdict in played.fenced.commits.items():
            row = judged[key]
            undecided += row.truth == "undecidable"
            by_rule = {rule: row[column] for column, rule in RULES.items()}
            differs = [
                rule
                for rule, said in by_rule.items()
                if said not in {verdict.by_rule[rule], "undecidable"}
            ]
            if key in played.fenced.undecidable:
                # The machine judged when the commit came in; who records sees a span of time.
                continue
            if differs or not agrees(row.truth, verdict.truth):
                wrong.append((key, verdict, row))
    assert wrong == []
    planted = sum(len(played.fenced.undecidable) for played in found.played)
    assert 0 < undecided <= planted


def agrees(said: str, truth: str) -> bool:
    """Whether an audit is right, or honest: what a lost answer gave nobody outside can see."""
    return said in {truth, "undecidable"} or (truth == "zombie" and said == "given up")


def test_the_rule_of_the_broker_is_told_by_its_answers(found: Findings) -> None:
    totals = {row.rule: row for row in found.rows["fencing_totals"]}
    assert totals["assignment-epoch"].otherwise_than_broker == 0
    assert totals["strict"].otherwise_than_broker > 0
    assert totals["revocation-epoch"].otherwise_than_broker > 0
    strict, shipped = totals["strict"], totals["assignment-epoch"]
    assert strict.commits_failed > totals["revocation-epoch"].commits_failed
    assert totals["revocation-epoch"].commits_failed > shipped.commits_failed
    assert {row.zombies_accepted for row in totals.values()} == {0}
    assert shipped.zombies_refused == strict.zombies_refused > 0
    assert shipped.innocents_refused == 0 < strict.innocents_refused


def test_transactions_that_refused_offsets_abort_are_counted_by_rule(found: Findings) -> None:
    planted: Counter[str] = Counter()
    for played in found.played:
        planted += played.transacted.aborted
    totals = {row.rule: row.transactions_aborted for row in found.rows["fencing_totals"]}
    assert totals == planted
    assert totals["strict"] > totals["revocation-epoch"] > totals["assignment-epoch"] > 0
    assert totals["broker"] == totals["assignment-epoch"]


def test_every_zombie_that_was_planted_is_among_the_cases(found: Findings) -> None:
    cases = {
        Key(row.connection, row.start_us, row.topic, row.partition): row.truth
        for row in found.rows["fencing_cases"]
    }
    zombies = [
        key
        for played in found.played
        for key, verdict in played.fenced.commits.items()
        if verdict.truth == "zombie" and key not in played.fenced.undecidable
    ]
    assert zombies
    assert {cases[key] for key in zombies} <= {"zombie", "given up"}
    assert sum(cases[key] == "zombie" for key in zombies) > 0.8 * len(zombies)


def test_ghosts_are_found_and_what_waited_for_them_is_added_up(found: Findings) -> None:
    for played in found.played:
        ghosts = {row.group_id: row for row in of_seed(found.rows["ghosts"], played)}
        haunted = {each.group_id: each for each in played.haunted if each.kind is not None}
        assert set(ghosts) == set(haunted)
        for group_id, truth in haunted.items():
            ghost = ghosts[group_id]
            assert ghost.kind == truth.kind
            assert ghost.would_own_id_save == truth.is_saved_by_own_id
            assert ghost.member_id in {*truth.member_ids, ""}
            assert ghost.partition_seconds_held == pytest.approx(truth.held_s, abs=12)
            assert ghost.partition_seconds_kept_free == pytest.approx(truth.free_s, abs=12)


def test_what_ghosts_cost_is_summed_up_by_kind(found: Findings) -> None:
    totals = {(row.kind, row.would_own_id_save): row for row in found.rows["ghost_totals"]}
    planted = Counter(
        (each.kind, each.is_saved_by_own_id)
        for played in found.played
        for each in played.haunted
        if each.kind is not None
    )
    assert {kind: row.ghosts for kind, row in totals.items()} == planted
    assert len(planted) == 4


def test_a_classic_ghost_is_one_until_the_session_it_asked_for_ends(found: Findings) -> None:
    ghosts = [row for row in found.rows["ghosts"] if row.protocol == "classic"]
    assert {row.kind for row in ghosts} == {"lost answer", "never came back", "vanished"}
    for row in ghosts:
        assert row.ended_by == "session timeout"
        assert row.until - row.last_sign == timedelta(milliseconds=SESSION_MS)


def test_offsets_expire_where_the_broker_lets_them(found: Findings) -> None:
    for played in found.played:
        rows = of_seed(found.rows["offset_expiry"], played)
        visited = [row for row in rows if row.topic == "visited" and row.partition == 0]
        assert {(row.group_id, row.fate) for row in visited} == played.forgotten.fates
        lost = {row.group_id: row.was_missing for row in visited if row.fate == "lost"}
        missing = {name for name, was in played.forgotten.missing.items() if was}
        assert set(lost) == missing
        assert all(lost.values())


def test_a_longer_retention_takes_nothing_away_within_the_capture(found: Findings) -> None:
    options = AuditOptions(retention_ms=7 * 24 * 3600 * 1000)
    rows = AUDITS["offsets"].tables(found.requests, options)["offset_expiry"]
    assert {row.fate for row in rows.select("fate").distinct().collect()} == {"at risk"}


def test_lag_is_what_was_written_less_what_was_committed(found: Findings) -> None:
    rows = found.rows["consumer_lag"]
    lags = {row.group_id: row.lag for row in rows if row.group_id.endswith("/laggard")}
    assert lags == {
        name: lag for played in found.played for name, lag in played.forgotten.lags.items()
    }


def test_stale_answers_are_found_with_what_came_of_them(found: Findings) -> None:
    rows = found.rows["stale_metadata"]
    connections = {
        row.client: row.connection
        for row in found.requests.of("Metadata").select("client", "connection").distinct().collect()
    }
    stale = [(connections[row.client], row.partition, row.kind, row.evidence) for row in rows]
    planted = {each for played in found.played for each in played.outdated.stale}
    assert len(stale) == len(planted)
    assert set(stale) == planted
    resets = {connections[row.client]: row.resets_after for row in rows if row.resets_after}
    assert resets == {
        line: count
        for played in found.played
        for line, count in played.outdated.consequences.items()
    }


def test_zombie_writes_and_takeovers_are_told_from_the_rest(found: Findings) -> None:
    zombies = {
        (row.client, int(row.at.timestamp() * 1_000_000 + 0.5)): row.outcome
        for row in found.rows["zombie_writes"]
    }
    planted = [outcome for played in found.played for outcome in played.produced.zombies.values()]
    assert sorted(zombies.values()) == sorted(planted)
    fences = found.rows["producer_fences"]
    takeovers = {
        (row.transactional_id, row.producer_epoch) for row in fences if row.kind == "takeover"
    }
    assert takeovers == {each for played in found.played for each in played.produced.takeovers}
    unused = {
        (row.transactional_id, row.producer_epoch)
        for row in fences
        if row.kind == "takeover" and not row.is_used
    }
    fenced_by_admin = {each for played in found.played for each in played.produced.admin_fences}
    assert fenced_by_admin <= unused


def test_transactions_end_as_they_did(found: Findings) -> None:
    rows = sorted(found.rows["transactions"], key=lambda row: row.began_at)
    ends: dict[str, list[str]] = {}
    for row in rows:
        ends.setdefault(row.transactional_id, []).append(row.end)
    planted = {
        name: told
        for played in found.played
        for truth in (played.produced, played.transacted)
        for name, told in truth.ends.items()
    }
    # A write that a broken broker takes from a zombie is a transaction to whoever looks on.
    leaky = {name for name in ends if name.endswith("/leaky")}
    assert {name: told for name, told in ends.items() if name not in leaky} == {
        name: told for name, told in planted.items() if name not in leaky
    }
    assert all(ends[name][0] == "fenced" for name in leaky)


def test_generations_of_connect_tasks_are_counted(found: Findings) -> None:
    rows = [row for row in found.rows["connect_tasks"] if row.connector is not None]
    tasks = [(row.connector, row.task, row.generation) for row in rows]
    assert sorted(tasks) == sorted(
        each for played in found.played for each in played.produced.tasks
    )


def test_health_counts_every_request_once(found: Findings) -> None:
    latency = {row.api: row for row in found.rows["latency"]}
    envelopes = found.requests.envelopes()
    assert sum(row.requests for row in latency.values()) == envelopes.count()
    assert latency["OffsetCommit"].p50_ms <= latency["OffsetCommit"].p99_ms
    assert latency["ConsumerGroupHeartbeat"].unanswered > 0
    errors = {(row.api, row.name) for row in found.rows["error_counts"]}
    assert ("OffsetCommit", "STALE_MEMBER_EPOCH") in errors
    assert ("Fetch", "OFFSET_OUT_OF_RANGE") in errors
    assert sum(row.requests for row in found.rows["load"]) == envelopes.count()
    assert any(row.rebalances for row in found.rows["rebalances"])
    assert any(row.bytes_in for row in found.rows["partition_traffic"])
    assert found.rows["clients"]


def test_tables_have_the_columns_they_document(found: Findings) -> None:
    assert set(found.schemas) == set(TABLES)
    for name, schema in found.schemas.items():
        told = {each.name: each.dataType for each in TABLES[name].schema}
        assert {each.name: each.dataType for each in schema} == told
        assert all(each.about for each in TABLES[name].columns)


def test_states_have_the_columns_they_document(found: Findings) -> None:
    for name, table in STATE_TABLES.items():
        told = [(each.name, each.dataType) for each in table.schema]
        assert [(each.name, each.dataType) for each in found.requests.state(name).schema] == told


def test_audits_of_nothing_find_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with interpreted(spark):
        nothing = laid_out(spark, [], tmp_path, OPTIONS)
        for name in ("members", "producers"):
            for frame in AUDITS[name].tables(nothing, OPTIONS).values():
                assert frame.isEmpty()
