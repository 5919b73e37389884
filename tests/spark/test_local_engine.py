"""The local engine writes the same tables and the same report as Spark, row by row."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark import pipeline
from kafkalite.lab.spark import requests as requests_module
from kafkalite.lab.spark.audits import AUDITS, STATES, TABLES, AuditOptions
from kafkalite.lab.spark.audits.commit_triage import TRIAGED
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.pipeline import Job, Outcome, audit
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.heartbeats import RUNS
from kafkalite.lab.spark.state.liveness import MEMBER_COMMITS
from kafkalite.lab.spark.state.request_sums import REQUEST_SUMS
from tests.perf.big_capture import write
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.offset_expiry import RETENTION_MIN
from tests.spark.truth.recorded_exchanges import record
from tests.spark.truth.requests_in_files import interpreted, laid_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.stages.projection import Projection

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RECORDED = Path(__file__).parents[1] / "captures"
OPTIONS = AuditOptions(retention_ms=RETENTION_MIN * 60_000)
SIGNIFICANT_DIGITS = 12


def scenarios(folder: Path) -> None:
    exchanges, _ = run_scenarios(folder.parent / "broker", [1])
    record(exchanges, folder)


def of_kafka(folder: Path) -> None:
    """Collect captures of a real Kafka, and one that continues in several files."""
    for path in sorted(RECORDED.glob("kafka-*/*.pcapng.gz")):
        (folder / f"by-{path.parent.name}-{path.name}").symlink_to(path)
    generated(folder)


def generated(folder: Path) -> None:
    write(folder, 400_000, connections=5, file_bytes=100_000)


def rows_of(folder: Path) -> tuple[list[tuple[str, pa.DataType]], list[str]]:
    """Return the columns of a table, and its rows in a defined order."""
    table = pa.concat_tables([parquet.read_table(path) for path in folder.glob("*.parquet")])
    columns = [(field.name, field.type) for field in table.schema]
    return columns, sorted(repr(rounded(row)) for row in table.to_pylist())


def rounded(value: Any) -> Any:  # noqa: ANN401 - any value of Parquet
    """Round floats, whose sums depend on the order, and sort lists, which have none.

    A file has another folder in each run.
    """
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        names = {"file": Path(value["file"]).name} if value.get("file") else {}
        return {name: rounded(each) for name, each in (value | names).items()}
    if isinstance(value, list):
        return sorted(map(rounded, value), key=repr)
    return value


@dataclass(frozen=True, slots=True)
class Outputs:
    """The output folders of an audit of one capture, by what computes the tables."""

    spark: Path
    local: Path
    """The local engine."""
    tasks: Path
    """The local engine; tasks of Spark read the capture and reduce the requests."""
    read_again: frozenset[str]
    """Names of projections by which tasks have reduced requests that were written already."""


PARTIAL_SUMS = {MEMBER_COMMITS.name, RUNS.name, REQUEST_SUMS.name, TRIAGED.name}
"""State tables with rows of each task, which other tables sum up."""
TO_COMPARE = [
    (table, engine)
    for table in (
        *(f"state/{name}" for name in STATES),
        *(f"audits/{name}" for name in TABLES),
    )
    for engine in ("local", "tasks")
    if engine == "local" or table.removeprefix("state/") not in PARTIAL_SUMS
]


@pytest.fixture(scope="module", params=[scenarios, of_kafka])
def outputs(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Outputs:
    """Audit a capture with each engine."""
    folder = tmp_path_factory.mktemp("engines")
    capture = folder / "capture"
    capture.mkdir()
    make: Callable[[Path], None] = request.param
    make(capture)
    names: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "MAX_LOCAL_REQUESTS", -1)
        expected = run(spark, capture, folder / "spark")
    with local_engine() as session:
        of_local = run(session, capture, folder / "local")
    reduce_files = Requests._reduce_files

    def noted(requests: Requests, files: Any, projection: Projection) -> Any:  # noqa: ANN401
        names.add(projection.name)
        return reduce_files(requests, files, projection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests_module, "_FEW_ROWS", 0)
        patch.setattr(Requests, "_reduce_files", noted)
        of_tasks = run(spark, capture, folder / "tasks")
    for outcome in (of_local, of_tasks):
        assert (outcome.files, outcome.requests) == (expected.files, expected.requests)
    return Outputs(folder / "spark", folder / "local", folder / "tasks", frozenset(names))


class FailingReporter(SilentReporter):
    """Fails if Spark repeats the work of the local engine."""

    def step(self, description: str) -> None:
        assert "failed" not in description


def run(session: SparkSession, capture: Path, out: Path) -> Outcome:
    job = Job(inputs=(str(capture),), out=str(out), audit_options=OPTIONS)
    return audit(session, job, FailingReporter())


@pytest.mark.parametrize(("table", "engine"), TO_COMPARE)
def test_tables_are_equal(outputs: Outputs, table: str, engine: str) -> None:
    of_spark, of_engine = outputs.spark / table, getattr(outputs, engine) / table
    assert of_spark.exists() == of_engine.exists()
    if of_spark.exists():
        assert rows_of(of_engine) == rows_of(of_spark)


def test_requests_are_reduced_by_the_tasks_that_write_them(outputs: Outputs) -> None:
    # Other projections need the epochs of the whole capture, or shorter session timeouts.
    assert outputs.read_again <= {""}
    assert not (outputs.tasks / pipeline.REDUCED).exists()


def test_requests_of_earlier_runs_are_reduced_too(
    outputs: Outputs, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, out = tmp_path / "capture", tmp_path / "out"
    capture.mkdir()
    monkeypatch.setattr(requests_module, "_FEW_ROWS", 0)
    files = sorted((outputs.spark.parent / "capture").iterdir())
    for some in (files[:1], files[1:]):
        for file in some:
            (capture / file.name).symlink_to(file.resolve())
        run(spark, capture, out)
    for table in sorted(TABLES):
        of_spark = outputs.spark / "audits" / table
        assert of_spark.exists() == (out / "audits" / table).exists()
        if of_spark.exists():
            assert rows_of(out / "audits" / table) == rows_of(of_spark)


@pytest.mark.parametrize("engine", ["local", "tasks"])
def test_reports_are_equal(outputs: Outputs, engine: str) -> None:
    of_spark, of_engine = (
        (out / "report.html").read_text().splitlines()
        for out in (outputs.spark, getattr(outputs, engine))
    )
    assert of_engine == of_spark


def test_each_engine_continues_the_output_of_the_other(
    outputs: Outputs, spark: SparkSession
) -> None:
    capture = outputs.spark.parent / "capture"
    assert run(spark, capture, outputs.local).files_read == 0
    with local_engine() as session:
        assert run(session, capture, outputs.spark).files_read == 0


@pytest.mark.parametrize(
    ("engine", "audits"), [("spark", ["producers"]), ("local", ["members", "producers"])]
)
def test_audits_of_an_empty_capture_find_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str, audits: list[str]
) -> None:
    with ExitStack() as stack:
        if engine == "local":
            session = stack.enter_context(local_engine())
        else:
            session = request.getfixturevalue("spark")
            stack.enter_context(interpreted(session))
        empty = laid_out(session, [], tmp_path, OPTIONS)
        tables = {
            name: frame
            for audit_name in audits
            for name, frame in AUDITS[audit_name].compute(empty, OPTIONS).items()
        }
        assert tables
        assert [name for name, frame in tables.items() if not frame.isEmpty()] == []


class Lines(SilentReporter):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, description: str) -> None:
        self.lines.append(description)


def test_spark_computes_what_is_too_large_for_the_local_engine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, out, reporter = tmp_path / "capture", tmp_path / "out", Lines()
    capture.mkdir()
    generated(capture)
    monkeypatch.setattr(pipeline, "MAX_LOCAL_ROWS", 100)
    job = Job(inputs=(str(capture),), out=str(out), audits=("producers",))
    audit(spark, job, reporter)
    assert any("Spark computes the tables" in line for line in reporter.lines)
    assert all(
        list((out / "audits" / table.name).iterdir()) for table in AUDITS["producers"].tables
    )
