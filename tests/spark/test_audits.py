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
from kafkalite.spark.audits.health import rebalances
from kafkalite.spark.audits.judging import judge
from kafkalite.spark.audits.members import ghosts
from kafkalite.spark.state.commits import commits
from kafkalite.spark.state.epochs import steps
from kafkalite.spark.state.generations import generations
from kafkalite.spark.state.heartbeats import heartbeats
from kafkalite.spark.state.presence import empty_spells
from kafkalite.spark.state.signs import signs
from kafkalite.spark.state.turns import classic_beats, turns, with_epochs, within_turns
from tests.spark.truth.crew import Key, Verdict
from tests.spark.truth.desk import interpreted, laid_out
from tests.spark.truth.forgotten import RETENTION_MIN
from tests.spark.truth.lingering import SESSION_MS
from tests.spark.truth.play import Played, play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

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


def of_epochs(found: Findings) -> dict[str, Row]:
    rows = found.rows["fencing_totals"]
    return {row.rule: row for row in rows if row.fenced_by == "epoch"}


def test_every_commit_is_judged_as_the_coordinator_itself_judges_it(found: Findings) -> None:
    judged = {
        Key(row.connection, row.start_us, row.topic, row.partition): row
        for row in found.requests.state("judged_commits").collect()
    }
    wrong: list[tuple[Key, Verdict, Row | None]] = []
    undecided = 0
    for played in found.played:
        for key, verdict in played.fenced.commits.items():
            row = judged.get(key)
            if row is None:
                # Only counted, as one that every rule accepts.
                if verdict.truth != "current" or set(verdict.by_rule.values()) != {"accept"}:
                    wrong.append((key, verdict, row))
                continue
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


def test_commits_that_are_only_counted_are_plain_to_whoever_judges_them_all(
    found: Findings,
) -> None:
    request = ("group_id", "connection", "start_us", "position")
    states = (found.requests.state(name) for name in ("epochs", "holdings", "topics"))
    epochs, turns_ = (found.requests.state(name) for name in ("epochs", "classic_turns"))
    asked = with_epochs(commits(found.requests), epochs, turns_)
    every = judge(asked, *states).where("truth != 'unjudged'").collect()
    kept = found.requests.state("judged_commits").collect()
    assert {str(row) for row in kept} <= {str(row) for row in every}
    in_doubt = {tuple(row[name] for name in request) for row in kept}
    plain = [row for row in every if tuple(row[name] for name in request) not in in_doubt]
    rules = (*RULES, "broker")
    assert {(row.truth, *(row[rule] for rule in rules)) for row in plain} == {
        ("current", *["accept"] * len(rules))
    }
    counted = Counter({row.group_id: 0 for row in plain})
    for row in found.requests.state("plain_commits").collect():
        counted[row.group_id] += row.commits
    were = {tuple(row[name] for name in request) for row in plain}
    assert counted == Counter(group_id for group_id, *_ in were)


def test_heartbeats_without_repeats_tell_what_all_of_them_tell(found: Findings) -> None:
    requests = found.requests
    every, beats = heartbeats(requests), requests.state("heartbeats")
    assert beats.count() < every.count() / 2
    signs_, told = signs(requests), requests.state("signs_of_life")
    assert told.count() < signs_.count()
    turns_ = turns(signs_, OPTIONS.session_timeout_ms)
    assert said(turns_) == said(requests.state("classic_turns"))
    names = requests.state("assignments"), requests.state("topics")
    every = every.unionByName(classic_beats(signs_, turns_, *names))
    assert said(steps(every)) == said(requests.state("epochs"))
    spells = [empty_spells(each, OPTIONS.session_timeout_ms) for each in (signs_, told)]
    assert said(spells[0]) == said(spells[1])
    held, extent = requests.state("holdings"), requests.state("extent")
    found_ = [ghosts(each, held, extent, OPTIONS.session_timeout_ms) for each in (signs_, told)]
    assert said(found_[0]) == said(found_[1])
    led = within_turns(signs_, turns_, negated=True)
    assert said(generations(led)) == said(requests.state("generations"))
    assert said(rebalances(signs_, 5)) == said(rebalances(told, 5))


def said(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def test_commits_of_classic_groups_are_judged_by_generation(found: Findings) -> None:
    judged = {
        Key(row.connection, row.start_us, row.topic, row.partition): row
        for row in found.requests.state("judged_by_generation").collect()
    }
    planted = {
        key: (verdict, key in played.rebalanced.truth.undecidable)
        for played in found.played
        for key, verdict in played.rebalanced.truth.commits.items()
    }
    assert set(judged) == set(planted)
    for key, (verdict, is_undecidable) in planted.items():
        row = judged[key]
        assert (row.revocation, row.assignment) == ("n/a", "n/a")
        assert row.broker == verdict.by_rule["strict"]
        expected = (verdict.by_rule["strict"], verdict.truth)
        assert (row.strict, row.truth) == (("undecidable",) * 2 if is_undecidable else expected)
    truths = {verdict.truth for verdict, _ in planted.values()}
    assert truths >= {"zombie", "innocent", "given up", "never its own", "departed", "current"}


def test_totals_count_classic_groups_beside_those_with_epochs(found: Findings) -> None:
    totals = {(row.fenced_by, row.rule): row for row in found.rows["fencing_totals"]}
    stories = [played.rebalanced for played in found.played]
    refused = {key[:2] for story in stories for key in story.truth.commits} - {
        key[:2] for story in stories for key in story.truth.undecidable
    }
    strict, broker = totals["generation", "strict"], totals["generation", "broker"]
    assert strict.commits == broker.commits == sum(story.commits for story in stories)
    assert strict.commits_failed == len(refused)
    assert strict.commits_undecidable == sum(len(story.truth.undecidable) for story in stories)
    assert broker.commits_failed == len({key[:2] for s in stories for key in s.truth.commits})
    assert strict.otherwise_than_broker == 0
    zombies = sum(each.truth == "zombie" for s in stories for each in s.truth.commits.values())
    assert (strict.zombies_refused, broker.zombies_accepted) == (zombies, 0)
    assert ("generation", "revocation-epoch") not in totals
    simple = totals["simple", "broker"]
    assert (simple.commits, simple.commits_failed) == (
        sum(played.forgotten.alone for played in found.played),
        0,
    )
    assert ("unknown", "broker") not in totals


def agrees(said: str, truth: str) -> bool:
    """Whether an audit is right, or honest: what a lost answer gave nobody outside can see."""
    return said in {truth, "undecidable"} or (truth == "zombie" and said == "given up")


def test_the_rule_of_the_broker_is_told_by_its_answers(found: Findings) -> None:
    totals = of_epochs(found)
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
    totals = {rule: row.transactions_aborted for rule, row in of_epochs(found).items()}
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


def test_what_brokers_before_kip_211_took_away_is_told(found: Findings) -> None:
    for played in found.played:
        rows = of_seed(found.rows["offsets_spared"], played)
        visited = [row for row in rows if row.topic == "visited" and row.partition == 0]
        spared = {row.group_id: row.asked_at is not None for row in visited}
        assert spared == played.forgotten.spared
        for row in visited:
            assert row.expired_at - row.committed_at == timedelta(minutes=RETENTION_MIN)
            assert row.committed_again_at > row.expired_at
    # A classic group's offsets age from when it is empty, not from when they were committed.
    classic = [row for row in found.rows["offsets_spared"] if "/classic-" in row.group_id]
    assert classic
    assert all(row.expires_at > row.expired_at for row in classic)


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


def test_lost_places_are_told_with_their_causes_and_what_they_cost(found: Findings) -> None:
    connections = {
        row.client: row.connection
        for row in found.requests.of("Fetch").select("client", "connection").distinct().collect()
    }
    resets = {
        connections[row.client]: (
            row.cause,
            row.fetch_offset,
            row.reset_by,
            row.reset_to,
            row.records_again,
            row.records_skipped,
        )
        for row in found.rows["offset_resets"]
    }
    planted = {
        line: told for played in found.played for line, told in played.outdated.resets.items()
    }
    assert resets == planted
    refused = {
        (row.client_id, row.error): (row.times, row.lowest_epoch)
        for row in found.rows["leader_epoch_errors"]
    }
    assert refused == {
        who: told for played in found.played for who, told in played.outdated.refused.items()
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
    groups = {played.prefix: played.produced for played in found.played}
    for prefix, truth in groups.items():
        tasks = {
            (row.connector, row.task, row.generation): (row.end, row.writes_after)
            for row in rows
            if row.connect_group.startswith(f"{prefix}-")
        }
        assert tasks == truth.tasks
    assert sum(row.writes_after for row in rows) == len(groups)
    assert not any(row.writes_after_taken for row in rows)


def test_rounds_of_fencing_in_connect_are_held_against_its_rules(found: Findings) -> None:
    for played in found.played:
        rows = {
            (row.connector, row.generation): (
                row.tasks, row.tasks_before, row.tasks_fenced, row.tasks_unfenced, row.tasks_early
            )
            for row in found.rows["connect_generations"]
            if row.connect_group.startswith(f"{played.prefix}-")
        }  # fmt: skip
        assert rows == played.produced.rounds
    assert all(row.configured_at < row.counted_at for row in found.rows["connect_generations"])


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
