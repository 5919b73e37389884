"""Unit tests of decoding pairs into typed requests, with problems by kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kafkalite.lab.columnar.exchanges.typed_exchanges import decode_pairs
from kafkalite.lab.columnar.tables import ENVELOPE, PROBLEMS, requests

HEARTBEAT = 12
PAIRS = pa.schema(
    [
        *ENVELOPE,
        pa.field("request_start", pa.int32(), nullable=False),
        pa.field("response_start", pa.int32()),
        pa.field("request", pa.binary()),
        pa.field("response", pa.binary()),
    ]
)
REQUEST = b"head" + b"\x00\x01g" + b"\x00\x00\x00\x05" + b"\x00\x01m"
RESPONSE = b"corr" + b"\x00\x1b"


def pair(
    request: bytes, response: bytes | None, version: int = 0, offset: int = 0
) -> dict[str, object]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row: dict[str, object] = dict.fromkeys(PAIRS.names, 0)
    row |= {"ts": at, "response_ts": at, "client": "c:1", "broker": "b:2", "client_id": None}
    row |= {"api_key": HEARTBEAT, "api_version": version, "file": "f", "offset": offset}
    row |= {"request": request, "request_start": 4}
    return row | {"response": response, "response_start": None if response is None else 4}


def batch(*rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), PAIRS)


def test_pairs_are_decoded() -> None:
    found, problems = decode_pairs(HEARTBEAT, batch(pair(REQUEST, RESPONSE), pair(REQUEST, None)))

    assert found.schema.equals(requests(HEARTBEAT))
    assert problems.num_rows == 0
    first, second = found.to_pylist()
    assert first["request"]["generation_id"] == 5
    assert first["response"]["error_code"] == 27
    assert first["client"] == "c:1"
    assert second["response"] is None


def test_malformed_messages_are_counted_by_reason() -> None:
    cut = REQUEST[:-1]
    rows = (pair(cut, None, offset=9), pair(REQUEST, RESPONSE), pair(cut, None), pair(b"", b"", 77))

    found, problems = decode_pairs(HEARTBEAT, batch(*rows))

    assert [row["request"] is None for row in found.to_pylist()] == [True, False, True, True]
    assert problems.schema.equals(PROBLEMS)
    found_problems = [
        (each["kind"], each["offset"], each["count"]) for each in problems.to_pylist()
    ]
    assert found_problems == [
        ("malformed message", 9, 2),
        ("unknown API or version", 0, 1),
        ("unknown API or version", 0, 1),
    ]
    assert problems.to_pylist()[0]["detail"] == (
        "Heartbeat request of version 0: a length exceeds the frame"
    )
    assert problems.to_pylist()[0]["connection"] == "c:1 > b:2"


def test_only_requested_fields_are_decoded() -> None:
    found, _ = decode_pairs(HEARTBEAT, batch(pair(REQUEST, RESPONSE)), fields=["request.group_id"])

    assert found.schema.names == [*ENVELOPE.names, "request"]
    assert found.to_pylist()[0]["request"] == {"group_id": "g"}


def test_field_of_neither_side_raises_key_error() -> None:
    with pytest.raises(KeyError, match="unknown field: group_id"):
        decode_pairs(HEARTBEAT, batch(), fields=["group_id"])


def test_empty_pairs_have_all_columns() -> None:
    found, problems = decode_pairs(HEARTBEAT, batch())

    assert (found.num_rows, problems.num_rows) == (0, 0)
    assert found.schema.equals(requests(HEARTBEAT))
