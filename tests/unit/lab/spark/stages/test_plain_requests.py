"""Plain requests: without an error in the response and without partition epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.stages.plain_requests import PLAIN, is_plain
from kafkalite.lab.spark.stages.writing import TableWriter
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

REFUSED: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)


Exchange = tuple[dict[str, Any] | None, dict[str, Any] | None]
"""A request and its response."""


def batch(key: ApiKey, *exchanges: Exchange) -> pa.RecordBatch:
    rows = [
        {
            **dict.fromkeys(("ts", "api_version", "correlation_id", "request_bytes"), 0),
            "connection": number,
            "client": "c:1",
            "broker": "b:2",
            "api_key": int(key),
            "file": "f",
            "offset": number,
            "request": request,
            "response": response,
        }
        for number, (request, response) in enumerate(exchanges)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=tables.requests(int(key)))


def fetched(*errors: int, epoch: int = -1) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "error_code": error, "incarnation_epoch": epoch}
        for index, error in enumerate(errors)
    ]
    return {"error_code": 0, "responses": [{"partitions": []}, {"partitions": partitions}]}


FETCHES: Final[tuple[tuple[Exchange, bool], ...]] = (
    (({}, fetched(0, 0)), True),
    (({}, fetched(0, REFUSED)), False),
    (({}, {"error_code": REFUSED, "responses": []}), False),
    (({}, fetched(0, epoch=4)), False),
    (({"topics": [{"partitions": [{"incarnation_epoch": 0}]}]}, fetched()), False),
    (({"topics": [{"partitions": [{"incarnation_epoch": -1}]}]}, None), True),
    ((None, None), True),
)


def test_error_or_epoch_at_any_depth_is_not_plain() -> None:
    fetches = batch(ApiKey.FETCH, *(exchange for exchange, _ in FETCHES))
    assert is_plain(ApiKey.FETCH, fetches).tolist() == [expected for _, expected in FETCHES]
    assert is_plain(ApiKey.FETCH, fetches[1:3]).tolist() == [False, False]


@pytest.mark.parametrize("key", [ApiKey.API_VERSIONS, ApiKey.HEARTBEAT, ApiKey.SHARE_FETCH])
def test_every_api_has_plain_requests(key: ApiKey) -> None:
    refused = {"error_code": REFUSED}
    assert is_plain(key, batch(key, ({}, {}), ({}, refused))).tolist() == [True, False]


def test_plain_requests_are_in_separate_files(tmp_path: Path) -> None:
    with TableWriter(location(str(tmp_path)), "task") as writer:
        writer.write_requests(ApiKey.FETCH, batch(ApiKey.FETCH, *(each for each, _ in FETCHES)))
        writer.write_requests(ApiKey.FETCH, batch(ApiKey.FETCH, FETCHES[0][0]))
    rows = {
        name.endswith(PLAIN): parquet.read_table(tmp_path / name).num_rows
        for name in writer.written
    }
    assert (len(writer.written), writer.rows) == (2, len(FETCHES) + 1)
    assert rows == {True: 4, False: 4}
