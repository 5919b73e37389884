"""Findings of the periods of a capture equal those of one audit of all requests before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from kafkalite.lab.spark.audits import PERIODIC_AUDITS, TABLES, AuditOptions
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.derived_tables import DerivedTables
from kafkalite.lab.spark.follow import periods
from kafkalite.lab.spark.follow.periods import PeriodAudits
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.requests import Requests
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.recorded_exchanges import record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MIN_REQUESTS = 20
"""Only periods with more requests are in the capture; in others, members send heartbeats only."""
COMPARED = (2, 4)
"""Positions of the periods that are compared, in addition to the last one."""
OPTIONS = AuditOptions(bucket_ms=50)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the requests of all scenarios."""
    folder = tmp_path_factory.mktemp("whole")
    exchanges, _ = run_scenarios(folder / "brokers", [1])
    record(exchanges, folder / "captures")
    with local_engine() as session:
        audit(
            session,
            Job(inputs=(str(folder / "captures"),), out=str(folder / "out"), audits=()),
        )
    return folder / "out"


def request_files(out: Path) -> list[Path]:
    return sorted(out.glob("requests/*/*/*.parquet"))


def times_us(file: Path) -> Any:  # noqa: ANN401 - an array of pyarrow
    times = parquet.read_table(file, columns=["ts"], partitioning=None)["ts"]
    return pc.cast(pc.cast(times, pa.timestamp("us")), pa.int64())


def busy_periods(out: Path, period_us: int) -> list[int]:
    """Return the numbers of periods with more than a few requests."""
    counts = Counter(
        time // period_us for file in request_files(out) for time in times_us(file).to_pylist()
    )
    return sorted(number for number, requests in counts.items() if requests > MIN_REQUESTS)


def copy_period(source: Path, target: Path, number: int, period_us: int) -> None:
    """Copy the requests of a period."""
    for file in request_files(source):
        numbers = pc.divide(times_us(file), pa.scalar(period_us, pa.int64()))
        rows = parquet.ParquetFile(file).read().filter(pc.equal(numbers, number))
        if len(rows):
            to = target / file.relative_to(source).with_name(f"{number}-{file.name}")
            to.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(rows, to)


def findings(out: Path, since_us: int) -> dict[str, list[str]]:
    """Return the rows of each table that are about this time or a later one, with their proofs."""
    return {
        folder.name: sorted(
            repr(row)
            for row in parquet.read_table(folder).to_pylist()
            if is_since(row, TABLES[folder.name].times, since_us)
        )
        for folder in out.glob("audits/*")
        if TABLES[folder.name].times
    }


def is_since(row: dict[str, Any], names: Sequence[str], since_us: int) -> bool:
    times = [row[name].timestamp() * 1e6 for name in names if row[name] is not None]
    return not times or max(times) >= since_us


def findings_of_one_audit(
    session: SparkSession, out: Path, audits: Sequence[str], since_us: int
) -> dict[str, list[str]]:
    """Audit the requests in a folder at once."""
    folder = location(str(out))
    for name in ("state", "audits"):
        (folder / name).delete()
    derived = DerivedTables(folder, folder / "unproven", OPTIONS, SilentReporter())
    derived.audit(Requests.read(session, folder, derived.state), audits)
    return findings(out, since_us)


@pytest.mark.parametrize(
    ("seconds", "last", "audits", "found_in"),
    [
        pytest.param(
            60,
            9,
            PERIODIC_AUDITS,
            {"departures", "ghosts", "offset_expiry", "rebalances", "stale_metadata"},
            id="all",
        ),
        pytest.param(
            5,
            8,
            ("producers",),
            {"producer_fences", "transactions", "zombie_writes", "connect_tasks"},
            id="producers",
        ),
    ],
)
def test_findings_of_a_period_are_those_of_one_audit_of_all_before(  # noqa: PLR0917
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    last: int,
    audits: tuple[str, ...],
    found_in: set[str],
) -> None:
    """Requests before the previous period are known from its evidence only."""
    monkeypatch.setattr(periods, "LATENESS_US", 0)
    monkeypatch.setattr(periods, "is_one_process", lambda _: True)
    period_us, now_ms, tables = seconds * 1_000_000, 0, set()
    numbers = busy_periods(whole, period_us)[-last:]
    out, captured = tmp_path / "out", tmp_path / "captured"
    with local_engine() as session:
        follower = PeriodAudits(
            session,
            location(str(out)),
            OPTIONS,
            SilentReporter(),
            lambda: now_ms,
            period_us,
            audits,
        )
        for batch, number in enumerate(numbers):
            staged = tmp_path / f"batch-{batch}"
            for target in (staged, captured):
                copy_period(whole, target, number, period_us)
            now_ms += 1_000_000_000
            follower.add_batch(location(str(staged)), batch, 1)
            follower.audit()
            if batch in COMPARED or number == numbers[-1]:
                since_us = (number - 1) * period_us
                period = sorted((out / "periods").iterdir())[-2]  # the last one has no requests
                found = findings(period, since_us)
                assert found == findings_of_one_audit(session, captured, audits, since_us), period
                tables |= {name for name, rows in found.items() if rows}
    assert tables >= found_in
    evidence = [len(times_us(file)) for file in request_files(period) if "-evidence" in file.name]
    assert 0 < sum(evidence) < sum(len(times_us(file)) for file in request_files(captured))
