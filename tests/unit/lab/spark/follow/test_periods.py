"""Periods of a followed capture: which requests each has, and when it is audited."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark import compaction
from kafkalite.lab.spark.audits import AuditOptions
from kafkalite.lab.spark.follow import periods
from kafkalite.lab.spark.follow.periods import LATENESS_US, PeriodAudits
from kafkalite.lab.spark.locations import Location, location
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS
from tests.unit.lab.spark.changes import Crash, crash_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.manifest import StoredManifest
    from kafkalite.lab.spark.output_journal import Output
    from kafkalite.lab.spark.pipeline import AuditEngine

LOCAL = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]")))
HOUR_US = 3_600_000_000
DATE = "date=1970-01-01"
WITHOUT_EVIDENCE = "ApiVersions"
EVIDENCE = "JoinGroup"
"""An API whose requests are all evidence."""


class Steps(SilentReporter):
    """Collects the steps of a stream."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, description: str) -> None:
        self.lines.append(description)


class Stream:
    """A stream of batches, whose audits are replaced by a list of the audited requests."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, api: str = WITHOUT_EVIDENCE
    ) -> None:
        self._requests = f"requests/api={api}/{DATE}"
        self.out = location(str(folder / "out"))
        self.reporter = Steps()
        self.now_ms = 0
        self.audited: list[tuple[str, list[int]]] = []
        self.engines: list[AuditEngine] = []
        self.since_us: list[int | None] = []
        self._staged = location(str(folder / "staged"))
        self.restart()
        monkeypatch.setattr(periods, "write_audits", self._write_audits)
        monkeypatch.setattr(periods, "write_report_of_audits", self._write_report)
        monkeypatch.setattr(periods, "settings_for_size", lambda *_: nullcontext())

    def restart(self) -> None:
        self.periods = PeriodAudits(
            LOCAL, self.out, AuditOptions(), self.reporter, lambda: self.now_ms, HOUR_US
        )

    def take(
        self,
        number: int,
        *times_us: int,
        is_last: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Take a batch of requests at these times."""
        self._staged.delete()
        columns = {"ts": pa.array(times_us, pa.timestamp("us", "UTC")), "us": list(times_us)}
        columns["connection"] = [number + 2] * len(times_us)
        columns["client"] = ["127.0.0.1:5"] * len(times_us)
        write(self._staged / f"{self._requests}/{number}.parquet", pa.table(columns))
        write(self._staged / f"problems/{number}.parquet", pa.table({"batch": [number]}))
        ids = pa.table([[1, number + 2], [0, 0]], schema=CONNECTION_IDS)
        write(self._staged / f"connections/{number}.parquet", ids)
        self.periods.add_batch(self._staged, number, 1)
        self.periods.audit(is_last=is_last, check=check)

    def rows(self) -> dict[str, list[int]]:
        """Return the times of the requests of each period."""
        return {name: self.rows_of(name) for name in (self.out / "periods").folders()}

    def rows_of(self, period: str) -> list[int]:
        folder = self.out / "periods" / period / "requests"
        return sorted(
            time
            for name in folder.walk()
            for time in parquet.read_table((folder / name).path, partitioning=None)[
                "us"
            ].to_pylist()
        )

    def _write_audits(
        self,
        engine: AuditEngine,
        output: Output,
        stored: StoredManifest,
        _: object,
        options: AuditOptions,
        __: object,
    ) -> StoredManifest:
        self.engines.append(engine)
        self.since_us.append(options.since_us)
        name = output.out.url.rpartition("/")[2]
        self.audited.append((name, self.rows_of(name)))
        self.now_ms += 10_000
        path = f"audits/ghosts/{len(self.audited)}.parquet"
        (output.begin() / path).write_text("")
        done = replace(stored.manifest, audited="all", derived=(path,))
        return output.commit(stored, done, [path])

    def audited_files(self, period: str) -> tuple[list[str], str | None]:
        """Return the tables of the last audit of a period, and the text of its report."""
        folder = self.out / "periods" / period
        return [*(folder / "audits").walk()], (folder / "report.html").read_text()

    @staticmethod
    def _write_report(_: object, __: object, out: Location) -> None:
        (out / "report.html").write_text(f"report of {[*(out / 'audits').walk()]}")


def write(file: Location, table: pa.Table) -> None:
    with file.create() as stream:
        parquet.write_table(table, stream)


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(tmp_path, monkeypatch)


def period(hour: int) -> str:
    return f"1970-01-01T{hour:02}-00-00Z"


def test_period_has_its_requests_and_those_of_the_period_before(stream: Stream) -> None:
    stream.take(0, 5, HOUR_US - 1, HOUR_US)
    stream.take(1, HOUR_US + 7)
    assert stream.rows() == {
        period(0): [5, HOUR_US - 1],
        period(1): [5, HOUR_US - 1, HOUR_US, HOUR_US + 7],
        period(2): [HOUR_US, HOUR_US + 7],
    }


def test_period_has_one_number_for_each_number_of_a_connection(stream: Stream) -> None:
    stream.take(0, 5)
    stream.take(1, 6)
    folder = stream.out / "periods" / period(0) / "connections"
    [name] = folder.walk()
    assert parquet.read_table((folder / name).path).to_pydict() == {
        "connection": [1, 2, 3],
        "id": [0, 0, 0],
    }


def test_repeated_batch_replaces_its_requests_in_all_periods(stream: Stream) -> None:
    stream.take(0, 5)
    stream.take(1, 6, HOUR_US, is_last=True)
    stream.restart()
    stream.take(1, 7)
    assert stream.rows() == {period(0): [5, 7], period(1): [5, 7], period(2): []}


def test_audits_pause_after_they_ran(stream: Stream) -> None:
    stream.take(0, 5)
    stream.take(1, 6)
    assert [rows for _, rows in stream.audited] == [[5]]
    stream.now_ms += 39_999  # four times the duration of the audits
    stream.take(2, 7)
    assert len(stream.audited) == 1
    stream.now_ms += 1
    stream.take(3, 8)
    assert stream.audited[1:] == [(period(0), [5, 6, 7, 8])]
    stream.take(4, 9, is_last=True)
    assert stream.audited[2:] == [(period(0), [5, 6, 7, 8, 9])]


def test_tables_and_report_of_the_last_audit_stay_until_the_next_one(stream: Stream) -> None:
    stream.take(0, 5)
    first = (["ghosts/1.parquet"], "report of ['ghosts/1.parquet']")
    assert stream.audited_files(period(0)) == first
    stream.take(1, 6)
    assert stream.rows()[period(0)] == [5, 6]
    assert stream.audited_files(period(0)) == first
    stream.restart()
    stream.periods.add_batch(stream.out / "none", 2, 1)
    assert stream.audited_files(period(0)) == first
    stream.take(2, 7)
    second = (["ghosts/2.parquet"], "report of ['ghosts/2.parquet']")
    assert stream.audited_files(period(0)) == second


def test_report_is_written_after_an_interruption_before_the_next_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.take(0, 5)

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(periods, "write_report_of_audits", crash)
        with pytest.raises(Crash):
            stream.take(1, 6, is_last=True)
    tables, report = stream.audited_files(period(0))
    assert (tables, report) == (["ghosts/2.parquet"], "report of ['ghosts/1.parquet']")
    stream.restart()
    stream.periods.add_batch(stream.out / "none", 1, 1)
    assert stream.audited_files(period(0)) == (tables, f"report of {tables}")


def test_period_whose_requests_a_repeated_batch_moves_has_no_tables(stream: Stream) -> None:
    stream.take(0, HOUR_US)
    assert stream.audited_files(period(1))[0]
    stream.take(0, 5)
    assert stream.audited_files(period(1)) == ([], None)


def test_period_without_changes_is_not_audited_again(stream: Stream) -> None:
    stream.take(0, 5)
    stream.now_ms += 10**9
    stream.take(1, HOUR_US)
    assert [name for name, _ in stream.audited] == [period(0), period(1)]


def test_last_audit_of_a_period_is_when_no_more_requests_can_come(stream: Stream) -> None:
    stream.take(0, 5)
    stream.take(1, 6, HOUR_US + LATENESS_US - 1)
    assert stream.rows()[period(0)] == [5, 6]
    stream.take(2, 7, HOUR_US + LATENESS_US)
    assert stream.audited[-1] == (period(0), [5, 6, 7])
    assert stream.rows()[period(0)] == []
    names = {*(stream.out / "periods" / period(0)).walk()}
    assert {"report.html", "tables.md"} < names
    assert [name.split("/")[0] for name in names].count("problems") == 3
    stream.restart()
    stream.take(3, 8, HOUR_US + LATENESS_US)
    assert stream.rows()[period(0)] == []
    late = "1 requests of the period 1970-01-01T00-00-00Z came after its last audit"
    assert late in stream.reporter.lines


def test_batch_repeated_after_the_last_audit_of_a_period_has_no_late_requests(
    stream: Stream,
) -> None:
    stream.take(0, 5, HOUR_US + LATENESS_US)
    assert stream.audited[0] == (period(0), [5])
    stream.restart()
    stream.take(0, 5, HOUR_US + LATENESS_US)
    assert not [line for line in stream.reporter.lines if "came after" in line]


def test_requests_of_few_periods_are_stored_and_audited(stream: Stream) -> None:
    for number in range(8):
        stream.take(number, number * HOUR_US, number * HOUR_US + LATENESS_US)
        assert sum(map(len, stream.rows().values())) <= 6
    assert max(len(rows) for _, rows in stream.audited) == 4
    assert Counter(name for name, _ in stream.audited).most_common(1)[0][1] <= 2


def test_files_of_many_batches_are_merged(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MIN_SPLITS", 4)
    for number in range(16):
        stream.take(number, number)
    assert stream.rows()[period(0)] == [*range(16)]
    assert len([*(stream.out / "periods" / period(0) / "requests").walk()]) <= 8
    stream.restart()
    stream.take(15, 100)
    assert stream.rows()[period(0)] == [*range(15), 100]


@pytest.mark.parametrize(
    ("api", "latest_us", "expected"),
    [
        (
            WITHOUT_EVIDENCE,
            HOUR_US + LATENESS_US,
            {
                period(0): [],
                period(1): [5, 6, HOUR_US, HOUR_US + LATENESS_US],
                period(2): [HOUR_US, HOUR_US + LATENESS_US],
            },
        ),
        (
            EVIDENCE,
            3 * HOUR_US + LATENESS_US,
            {
                period(0): [],
                period(1): [],
                period(3): [5, 6, HOUR_US, 3 * HOUR_US + LATENESS_US],
                period(4): [3 * HOUR_US + LATENESS_US],
            },
        ),
    ],
    ids=["without evidence", "evidence"],
)
def test_batch_interrupted_at_a_step_is_repeated_exactly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    latest_us: int,
    expected: dict[str, list[int]],
) -> None:
    Stream(tmp_path / "before", monkeypatch, api).take(0, 5, HOUR_US, is_last=True)
    step = 0
    while True:
        shutil.copytree(tmp_path / "before", tmp_path / str(step))
        stream = Stream(tmp_path / str(step), monkeypatch, api)
        with monkeypatch.context() as patched:
            done = crash_at(patched, step)
            is_complete = True
            try:
                stream.take(1, 6, latest_us)
            except Crash:
                is_complete = False
        if is_complete:
            break
        stream.restart()
        stream.take(1, 6, latest_us)
        assert stream.rows() == expected, (step, done)
        for each in period(0), period(1):
            tables, report = stream.audited_files(each)
            assert len(tables) == 1, (step, done)
            assert report == f"report of {tables}", (step, done)
        shutil.rmtree(tmp_path / str(step))
        step += 3 if api == WITHOUT_EVIDENCE else 11
    assert step > 40


def test_all_periods_use_one_engine_that_reports_its_failure(stream: Stream) -> None:
    stream.take(0, 5, HOUR_US, is_last=True)
    first, second = stream.engines
    assert first is second
    assert first.reporter is stream.reporter


def test_audits_end_at_the_step_at_which_the_stream_is_stopped(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [True, True, False]

    def check() -> None:
        if not steps.pop(0):
            raise Crash

    def write(*arguments: Any) -> None:  # noqa: ANN401 - those of the function
        reporter = arguments[-1]
        reporter.step("state: topics")
        reporter.step("state: epochs")
        pytest.fail("not stopped")

    with monkeypatch.context() as patched:
        patched.setattr(periods, "write_audits", write)
        with pytest.raises(Crash):
            stream.take(0, 5, check=check)
    stream.restart()
    stream.take(0, 5)
    assert stream.audited == [(period(0), [5])]


def test_evidence_passes_periods_without_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path, monkeypatch, EVIDENCE)
    stream.take(0, 5, HOUR_US)
    stream.take(1, 5 * HOUR_US)
    stream.take(2, 6 * HOUR_US, 6 * HOUR_US + LATENESS_US)
    last = [5 * HOUR_US, 6 * HOUR_US, 6 * HOUR_US + LATENESS_US]
    assert stream.rows()[period(6)] == [5, HOUR_US, *last]
    assert stream.rows()[period(5)] == []


def test_evidence_has_the_numbers_of_connections_in_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path, monkeypatch, EVIDENCE)
    stream.take(0, 5)
    stream.take(1, 3 * HOUR_US, 3 * HOUR_US + LATENESS_US)
    folder = stream.out / "periods" / period(3) / "requests"
    connections = [
        connection
        for name in folder.walk()
        if "-evidence" in name
        for connection in parquet.read_table((folder / name).path, partitioning=None)[
            "connection"
        ].to_pylist()
    ]
    assert connections == [0]  # as in the table of connections, not 2


def test_audited_time_begins_one_period_earlier(stream: Stream) -> None:
    stream.take(0, 5 * HOUR_US)
    assert stream.since_us == [4 * HOUR_US]


def test_batch_without_requests_changes_nothing(stream: Stream) -> None:
    stream.take(0)
    assert stream.rows() == {}
