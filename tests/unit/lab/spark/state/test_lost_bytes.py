"""The times in which a capture lost bytes, from the requests around each gap."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.lost_bytes import lost_bytes
from kafkalite.protocol.api_keys import ApiKey

pytestmark = pytest.mark.spark

END_NS = (1 << 63) - 1


def losses_of(*gaps: tuple[int | None, str], kind: ProblemKind = ProblemKind.GAP) -> Any:  # noqa: ANN401 - pairs
    """Return the times of gaps at offsets of a file with requests at 100, 200, 300 and 400."""
    sent = [(100, "a:1"), (200, "b:2"), (300, "a:1"), (400, "b:2")]
    rows = [
        {
            "ts": offset, "connection": 1, "client": client, "broker": "k:9092",
            "api_key": int(ApiKey.HEARTBEAT), "api_version": 0, "correlation_id": offset,
            "request_bytes": 0, "file": "one", "offset": offset,
        }
        for offset, client in sent
    ]  # fmt: skip
    problems = [
        {"kind": kind.value, "file": "one", "offset": offset, "connection": f"{client} > k:9092",
         "detail": "", "count": 1}
        for offset, client in gaps
    ]  # fmt: skip
    with local_engine() as session:
        requests = Requests.of_tables(
            session,
            {"Heartbeat": pa.Table.from_pylist(rows, tables.requests(int(ApiKey.HEARTBEAT)))},
        )
        requests._problems = session.createDataFrame(
            pa.Table.from_pylist(problems, tables.PROBLEMS)
        )
        return [(each.from_ns, each.until_ns) for each in lost_bytes(requests)]


def test_a_gap_lasts_from_the_request_before_to_the_one_after() -> None:
    assert losses_of((300, "b:2")) == [(200_000, 300_000)]


def test_a_gap_without_a_request_before_or_after_has_no_limit() -> None:
    assert losses_of((50, "a:1")) == [(0, 100_000)]
    assert losses_of((450, "a:1")) == [(300_000, END_NS)]
    assert losses_of((None, "a:1")) == [(0, END_NS)]


def test_gaps_at_the_same_time_are_one() -> None:
    assert losses_of((350, "a:1"), (350, "b:2")) == [(200_000, 400_000)]


def test_other_problems_lose_no_bytes() -> None:
    assert losses_of((300, "b:2"), kind=ProblemKind.NOT_KAFKA) == []
