"""Places of requests that findings of later batches name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.audits.members import GHOSTS
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.follow.proofs import collect_places
from kafkalite.lab.spark.follow.state import BatchMetadata, BatchState
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.requests import Requests
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.audits.proofs import Places

pytestmark = pytest.mark.spark

CLIENT = "10.0.0.1:5"


@pytest.fixture
def session() -> Iterator[SparkSession]:
    with local_engine() as session:
        yield session


def heartbeats(session: SparkSession, *times_us: int) -> Requests:
    rows = [
        {
            "ts": us, "response_ts": us, "connection": 1, "client": CLIENT,
            "broker": "k:9092", "api_key": int(ApiKey.HEARTBEAT), "api_version": 4,
            "client_id": "web", "correlation_id": us, "request_bytes": 9, "response_bytes": 9,
            "file": "a.pcap", "offset": 100 * us,
        }
        for us in times_us
    ]  # fmt: skip
    return Requests.of_tables(
        session, {"Heartbeat": pa.Table.from_pylist(rows, tables.requests(int(ApiKey.HEARTBEAT)))}
    )


def proven(places: Places, us: int) -> list[int]:
    """Return the positions of the requests that prove a ghost."""
    at = pa.array([us], pa.timestamp("us", tz="UTC"))
    rows = places.add_to(GHOSTS.name, pa.table({"last_seen": at, "client": [CLIENT]}))
    (proofs,) = rows["proofs"].to_pylist()
    return [each["offset"] for each in proofs]


def test_requests_of_earlier_batches_are_found_while_they_may_be_named(
    session: SparkSession, tmp_path: Path
) -> None:
    tables_: dict[str, int] = {}

    def batch(number: int, requests: Requests, found: list[int], retained: list[int]) -> Places:
        previous = BatchMetadata(tables=dict(tables_))
        state = BatchState(session, location(str(tmp_path)), number, previous, are_few=True)
        times = [np.array(each, np.int64) for each in (found, retained)]
        places = collect_places(state, requests, times[:1], times[1:])
        tables_["request_places"] = number
        return places

    batch(0, heartbeats(session, 1, 2, 3), [], [2, 3])
    second = batch(1, heartbeats(session, 8), [8], [3])
    assert [proven(second, us) for us in (2, 3, 8)] == [[], [300], [800]]
    third = batch(2, heartbeats(session, 9), [3, 8, 9], [])
    assert [proven(third, us) for us in (3, 8, 9)] == [[300], [], [900]]
