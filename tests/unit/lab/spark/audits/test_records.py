"""The audit finds the same as `kafkalite check`, because both apply the same rules."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.history import Proof
from kafkalite.lab.checker.message_rows import row_of
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.audits import STATES, AuditOptions
from kafkalite.lab.spark.audits.records import FINDINGS, RECORDS
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.requests import Requests
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND
from kafkalite.protocol import codec
from tests.unit.lab.checker.planted import PLANTED
from tests.unit.lab.checker.regular_traffic import run_regular_traffic
from tests.unit.lab.checker.simulation import SimulatedCluster
from tests.unit.lab.checker.test_pieces import RecordingCollector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.lab.checker.findings import CheckResult

pytestmark = pytest.mark.spark

CAPTURES = Path(__file__).parents[4] / "captures" / "kafka-4.3.1"


_OTHER_FIELDS = ("incarnation", "commands")
"""Fields that only one of both has: the commands of `check` are those of the report."""


def finding_text(finding: Mapping[str, Any], *, has_connections: bool = True) -> str:
    """Return a finding in a form that is the same for both."""
    fields = {name: value for name, value in finding.items() if name not in _OTHER_FIELDS}
    fields["group_id"] = fields.pop("group", fields.get("group_id"))
    fields["proofs"] = [
        (
            Path(each["file"]).name,
            each["offset"],
            each["connection"] if has_connections else "",
            each["request"],
        )
        for each in fields["proofs"]
    ]
    return json.dumps(fields, sort_keys=True)


def checked_texts(result: CheckResult, **options: bool) -> list[str]:
    return sorted({finding_text(each.as_json(), **options) for each in result.findings})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = pa.concat_tables([parquet.read_table(path) for path in folder.glob("*.parquet")])
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def test_the_stored_captures(tmp_path: Path) -> None:
    files = sorted(CAPTURES.glob("*.gz"))
    result = check(captured_history(files, lambda _: None))
    with local_engine() as session:
        job = Job(inputs=(str(CAPTURES),), out=str(tmp_path / "out"), audits=(RECORDS.name,))
        audit(session, job)
    audits = tmp_path / "out" / "audits"
    assert sorted(map(finding_text, rows_of(audits / "record_findings"))) == checked_texts(result)
    assert {row["reason"]: row["count"] for row in rows_of(audits / "undecidable")} == {
        each.reason: each.count for each in result.undecided
    }
    acknowledged, deliveries = (rows_of(audits / name) for name in ("acknowledged", "deliveries"))
    assert sum(row["records"] for row in acknowledged) == result.acknowledged
    assert (
        sum(row["last_offset"] - row["first_offset"] + 1 for row in deliveries) == result.delivered
    )
    shares: dict[str, float] = {}
    for row in rows_of(audits / "record_causes"):
        shares[row["rule"]] = shares.get(row["rule"], 0) + (row["share"] or 0)
    assert all(share == pytest.approx(1) or not share for share in shares.values())


def request_row(observation: Observation) -> dict[str, Any]:
    """Return the row of a request in the table of its API."""
    event, (request, response) = (
        observation.event,
        (
            None if each is None else row_of(each)
            for each in (observation.request, observation.response)
        ),
    )
    assert isinstance(event.proof, Proof)
    return {
        "ts": event.sent_ns // NANOSECONDS_PER_MICROSECOND,
        "response_ts": event.answered_ns and event.answered_ns // NANOSECONDS_PER_MICROSECOND,
        "connection": event.connection,
        "client": f"{event.client.host}:{30_000 + event.connection}",
        "broker": event.broker,
        "api_key": observation.api_key,
        "api_version": 0,
        "correlation_id": event.proof.request,
        "client_id": event.client.id,
        "request_bytes": 0,
        "file": event.proof.file,
        "offset": event.proof.offset,
        "request": request,
        "response": response,
    }


def tables_of(observations: Iterable[Observation]) -> dict[str, pa.Table]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for observation in observations:
        rows.setdefault(observation.api_key, []).append(request_row(observation))
    return {
        codec.api_name(key): pa.Table.from_pylist(of_api, tables.requests(key))
        for key, of_api in rows.items()
    }


@pytest.mark.parametrize("plant", PLANTED[::3], ids=[each.__name__ for each in PLANTED[::3]])
def test_planted_anomalies(plant: Any) -> None:  # noqa: ANN401 - a function
    random, cluster = Random(11), SimulatedCluster()  # noqa: S311 - repeatable
    collector = cluster.collector = RecordingCollector()
    run_regular_traffic(cluster, random, steps=2)
    plant(cluster, random)
    with local_engine() as session:
        requests = Requests.of_tables(
            session,
            tables_of(collector.observations),
            derive=lambda requests, name: STATES[name].compute(requests, AuditOptions()),
        )
        found = RECORDS.compute(requests, AuditOptions())[FINDINGS.name].toArrow().to_pylist()
    texts = sorted(finding_text(each, has_connections=False) for each in found)
    assert texts == checked_texts(check(cluster.history()), has_connections=False)
