"""Proofs of findings: the requests that match what the rows of tables say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.lab.spark.audits import TABLES
from kafkalite.lab.spark.audits.proofs import EVIDENCE, Place, Places, requests_at, times_in
from kafkalite.protocol.api_keys import ApiKey

pytestmark = pytest.mark.spark

AT = pa.timestamp("us", tz="UTC")


def place(offset: int, api: ApiKey, client: str = "10.0.0.1:5", **fields: Any) -> Place:  # noqa: ANN401 - any
    others = {"client_id": "web", "groups": None, **fields}
    return Place("one.pcap", offset, 7, client, "k:9092", api_key=int(api), **others)


def offsets_of(name: str, places: list[tuple[int, Place]], **row: Any) -> list[int]:  # noqa: ANN401 - any
    times = {each.at for each in EVIDENCE[name]}
    columns = {
        column: pa.array([value], AT if column in times else None) for column, value in row.items()
    }
    (proofs,) = Places(places).add_to(name, pa.table(columns))["proofs"].to_pylist()
    assert all(each["connection"].endswith(" > k:9092") for each in proofs)
    return [each["offset"] for each in proofs]


def test_the_columns_of_evidence_exist() -> None:
    for name, evidence in EVIDENCE.items():
        columns = {each.name for each in TABLES[name].columns}
        for each in evidence:
            assert {each.at, *each[1:6]} - {""} <= columns
            assert not each.cause or "cause" in columns
        assert "proofs" in columns


def test_a_request_of_another_client_or_api_proves_nothing() -> None:
    places = [
        (5, place(1, ApiKey.OFFSET_COMMIT)),
        (5, place(2, ApiKey.OFFSET_COMMIT, "10.0.0.2:5")),
        (5, place(3, ApiKey.HEARTBEAT)),
        (6, place(4, ApiKey.OFFSET_COMMIT)),
    ]
    assert offsets_of("fencing_cases", places, at=5, client="10.0.0.1:5") == [1]
    assert offsets_of("fencing_cases", places, at=7, client="10.0.0.1:5") == []


def test_another_connection_of_the_client_counts_where_the_row_has_its_address() -> None:
    row = {"known_since": 4, "at": 5, "host": "::1", "client": "[::1]:9", "client_id": "web"}
    places = [
        (4, place(1, ApiKey.METADATA, "[::1]:8")),
        (4, place(2, ApiKey.METADATA, "[::1]:8", client_id="other")),
        (5, place(3, ApiKey.METADATA, "[::1]:9")),
        (5, place(4, ApiKey.METADATA, "[::1]:8")),
    ]
    assert offsets_of("stale_metadata", places, **row) == [1, 3]


def test_a_commit_is_found_by_its_group_or_by_the_end_of_its_transaction() -> None:
    row = {"committed_at": 5, "returned_at": None, "group_id": "shop"}
    ended = (5, place(1, ApiKey.END_TXN))
    committed = (5, place(2, ApiKey.OFFSET_COMMIT, groups=("shop",)))
    other = (5, place(3, ApiKey.OFFSET_COMMIT, groups=("mail",)))
    assert offsets_of("offset_expiry", [ended, committed, other], **row) == [2]
    assert offsets_of("offset_expiry", [ended, other], **row) == [1]


def test_the_scan_returns_requests_by_both_times() -> None:
    rows = pa.table(
        {
            "start_us": [1, 3, 5, 7],
            "end_us": pa.array([2, 4, None, 8], pa.int64()),
            "group": ["", "shop", None, "shop"],
            "groups_in": [[{"group_id": "mail"}], None, None, None],
        }
    )
    found = requests_at(rows, np.array([2, 3, 9]))
    assert found["start_us"].to_pylist() == [1, 3]
    assert found["groups"].to_pylist() == [["mail"], ["shop"]]


def test_the_times_of_rows_are_in_microseconds() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    rows = pa.table({"at": pa.array([at, at, None], AT)})
    assert times_in("producer_fences", rows).tolist() == [1_000_000]
