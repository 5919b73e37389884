"""Typed rows of pairs, and problems of those that cannot be decoded."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.stages.typed import decode_typed, problem_rows
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kafkalite.lab.spark.stages.typed import TypedRows

HEARTBEAT = 12
VERSION = 3
PAIRS = pa.schema(
    [
        *tables.ENVELOPE,
        pa.field("request_start", pa.int32()),
        pa.field("response_start", pa.int32()),
        pa.field("request", pa.binary()),
        pa.field("response", pa.binary()),
    ]
)


def body(message: object, *, request: bool) -> bytes:
    out: list[bytes | memoryview] = []
    build = codec.request_builder if request else codec.response_builder
    build(HEARTBEAT, VERSION)(message, out)
    return b"".join(out)


def pair(
    number: int, request: bytes, response: bytes | None, **changed: object
) -> dict[str, object]:
    return {
        "ts": datetime(2026, 11, 22, tzinfo=UTC),
        "connection": 1,
        "client": "c:1",
        "broker": "b:2",
        "api_key": HEARTBEAT,
        "api_version": VERSION,
        "correlation_id": number,
        "request_bytes": len(request),
        "file": "f",
        "offset": number,
        "request_start": 4,
        "response_start": None if response is None else 2,
        "request": b"head" + request,
        "response": None if response is None else b"hd" + response,
        **changed,
    }


def request_of(group: str) -> bytes:
    return body(HeartbeatRequest(group_id=group, generation_id=5, member_id="m"), request=True)


def decoded(*pairs: dict[str, object]) -> list[TypedRows]:
    return [*decode_typed(pa.RecordBatch.from_pylist([*pairs], schema=PAIRS))]


def test_messages_are_decoded_to_typed_columns() -> None:
    answer = body(HeartbeatResponse(error_code=27), request=False)
    [found] = decoded(pair(1, request_of("g"), answer), pair(2, request_of("h"), None))
    assert found.api_key == HEARTBEAT
    assert found.requests is not None
    assert found.requests.schema.equals(tables.requests(HEARTBEAT))
    first, second = found.requests.to_pylist()
    assert (first["request"]["group_id"], first["response"]["error_code"]) == ("g", 27)
    assert (second["request"]["group_id"], second["response"]) == ("h", None)
    assert found.problems.num_rows == 0


def test_undecodable_request_has_an_envelope_and_a_problem() -> None:
    whole = request_of("g")
    [found] = decoded(pair(1, whole[:-3], None), pair(2, whole, None))
    assert found.requests is not None
    assert [row["request"] is None for row in found.requests.to_pylist()] == [True, False]
    [problem] = found.problems.to_pylist()
    assert problem["kind"] == ProblemKind.MALFORMED
    assert (problem["file"], problem["offset"], problem["connection"]) == ("f", 1, "c:1 > b:2")


def test_unknown_api_is_one_problem_per_file() -> None:
    odd = struct.pack(">h", 31_000)
    unknown = [pair(number, odd, None, api_key=31_000, file="fgf"[number]) for number in range(3)]
    found = {rows.api_key: rows for rows in decoded(*unknown, pair(4, request_of("g"), None))}
    heartbeats = found[HEARTBEAT].requests
    assert heartbeats is not None
    assert heartbeats.num_rows == 1
    assert found[31_000].requests is None
    problems = {
        (row["kind"], row["file"], row["count"]) for row in found[31_000].problems.to_pylist()
    }
    expected = {(ProblemKind.UNKNOWN_VERSION, "f", 2), (ProblemKind.UNKNOWN_VERSION, "g", 1)}
    assert problems == expected


def test_problems_become_rows() -> None:
    problem = Problem(
        kind=ProblemKind.GAP, file="f", offset=None, connection="c > b", detail="d", count=3
    )
    rows = problem_rows([problem])
    assert rows.schema == tables.PROBLEMS
    assert rows.to_pylist() == [
        {
            "kind": "gap",
            "file": "f",
            "offset": None,
            "connection": "c > b",
            "detail": "d",
            "count": 3,
        }
    ]
    assert problem_rows([]).num_rows == 0


def test_fields_can_be_selected() -> None:
    pairs = pa.RecordBatch.from_pylist([pair(1, request_of("g"), None)], schema=PAIRS)
    [found] = decode_typed(pairs, ["request.group_id"])
    assert found.requests is not None
    assert found.requests["request"].to_pylist() == [{"group_id": "g"}]
