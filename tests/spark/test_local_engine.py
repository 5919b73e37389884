"""The local engine writes the same tables and the same report as Spark, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.traffic.spark.audits import STATE_TABLES, TABLES, AuditOptions
from kafkalite.traffic.spark.dataframes import local_engine
from kafkalite.traffic.spark.pipeline import Job, Outcome, audit
from tests.perf.big_capture import write
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.offset_expiry import RETENTION_MIN
from tests.spark.truth.recorded_exchanges import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RECORDED = Path(__file__).parents[1] / "captures"
OPTIONS = AuditOptions(retention_ms=RETENTION_MIN * 60_000)
SIGNIFICANT_DIGITS = 12


def scenarios(folder: Path) -> None:
    exchanges, _ = run_scenarios(folder.parent / "broker", [1])
    record(exchanges, folder)


def of_kafka(folder: Path) -> None:
    for path in sorted(RECORDED.glob("kafka-*/*.pcapng.gz")):
        (folder / f"{path.parent.name}-{path.name}").symlink_to(path)


def generated(folder: Path) -> None:
    write(folder, 400_000, connections=5, file_bytes=100_000)


def rows_of(folder: Path) -> tuple[list[tuple[str, pa.DataType]], list[str]]:
    """Return the columns of a table, and its rows in a defined order."""
    table = pa.concat_tables([parquet.read_table(path) for path in folder.glob("*.parquet")])
    columns = [(field.name, field.type) for field in table.schema]
    return columns, sorted(repr(rounded(row)) for row in table.to_pylist())


def rounded(value: Any) -> Any:  # noqa: ANN401 - any value of Parquet
    """Round floats, whose sums depend on the order, and sort lists, which have none."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(rounded, value), key=repr)
    return value


@pytest.fixture(scope="module", params=[scenarios, of_kafka, generated])
def outputs(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    """Audit a capture with both engines; return Spark's output and that of the local engine."""
    folder = tmp_path_factory.mktemp("engines")
    capture = folder / "capture"
    capture.mkdir()
    make: Callable[[Path], None] = request.param
    make(capture)
    of_spark, of_local = folder / "spark", folder / "local"
    expected = run(spark, capture, of_spark)
    with local_engine() as session:
        found = run(session, capture, of_local)
    assert (found.files, found.requests) == (expected.files, expected.requests)
    return of_spark, of_local


def run(session: SparkSession, capture: Path, out: Path) -> Outcome:
    return audit(session, Job(inputs=(str(capture),), out=str(out), audit_options=OPTIONS))


@pytest.mark.parametrize(
    "table",
    [*(f"state/{name}" for name in STATE_TABLES), *(f"audits/{name}" for name in TABLES)],
)
def test_tables_are_equal(outputs: tuple[Path, Path], table: str) -> None:
    of_spark, of_local = (out / table for out in outputs)
    assert of_spark.exists() == of_local.exists()
    if of_spark.exists():
        assert rows_of(of_local) == rows_of(of_spark)


def test_reports_are_equal(outputs: tuple[Path, Path]) -> None:
    of_spark, of_local = ((out / "report.html").read_text().splitlines() for out in outputs)
    assert of_local == of_spark


def test_each_engine_continues_the_output_of_the_other(
    outputs: tuple[Path, Path], spark: SparkSession
) -> None:
    of_spark, of_local = outputs
    capture = of_spark.parent / "capture"
    assert run(spark, capture, of_local).files_read == 0
    with local_engine() as session:
        assert run(session, capture, of_spark).files_read == 0
