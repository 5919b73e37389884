"""Decoding of assignments of classic groups; undecodable ones are marked."""

from __future__ import annotations

import pyarrow as pa

from kafkalite.lab.spark.state.assignments import read_assignments
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)

GIVEN = {"orders": [1, 2], "payments": [0]}


def assignment(given: dict[str, list[int]], version: int) -> bytes:
    rows = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in given.items()
    ]
    return bytes(codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=rows), version))


def read(*assignments: bytes | None) -> list[tuple[bool, dict[str, list[int]] | None]]:
    count = len(assignments)
    batch = pa.RecordBatch.from_pydict(
        {
            "group_id": ["group"] * count,
            "generation": pa.array([3] * count, pa.int32()),
            "member_id": [f"member-{number}" for number in range(count)],
            "is_from_leader": [True] * count,
            "earliest_us": [1] * count,
            "latest_us": [2] * count,
            "assignment": pa.array(assignments, pa.binary()),
        }
    )
    (made,) = read_assignments([batch])
    assert made["member_id"].to_pylist() == batch["member_id"].to_pylist()
    return [
        (
            row["is_decoded"],
            row["given"] and {each["topic"]: each["partitions"] for each in row["given"]},
        )
        for row in made.to_pylist()
    ]


def test_every_version_is_decoded() -> None:
    assert read(*(assignment(GIVEN, version) for version in range(4))) == [(True, GIVEN)] * 4


def test_empty_bytes_mean_no_partitions() -> None:
    assert read(b"", assignment({}, 1)) == [(True, None), (True, [])]


def test_undecodable_assignment_is_marked_as_not_read() -> None:
    whole = assignment(GIVEN, 1)
    cut = [whole[:size] for size in range(1, len(whole) - 4)]
    hostile = [b"\0\1\x7f\xff\xff\xff", b"\xff\xff" + whole[2:], b"\0\1\0\0\0\1\0\1\xff\0\0\0\0"]
    assert read(*cut, *hostile) == [(False, None)] * (len(cut) + len(hostile))


def test_rows_next_to_an_undecodable_assignment_are_decoded() -> None:
    whole = assignment(GIVEN, 0)
    assert read(b"\0\1\0", whole, b"x", whole) == [
        (False, None), (True, GIVEN), (False, None), (True, GIVEN)
    ]  # fmt: skip
