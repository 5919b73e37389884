"""What leaders of classic groups hand out, read from its bytes; whatever else it is, told so."""

from __future__ import annotations

import pyarrow as pa

from kafkalite.protocol import codec
from kafkalite.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkalite.spark.state.assignments import read_assignments

GIVEN = {"orders": [1, 2], "payments": [0]}


def assignment(given: dict[str, list[int]], version: int) -> bytes:
    rows = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in given.items()
    ]
    return bytes(codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=rows), version))


def read(*said: bytes | None) -> list[tuple[bool, dict[str, list[int]] | None]]:
    count = len(said)
    batch = pa.RecordBatch.from_pydict(
        {
            "group_id": ["group"] * count,
            "generation": pa.array([3] * count, pa.int32()),
            "member_id": [f"member-{number}" for number in range(count)],
            "is_leaders": [True] * count,
            "begin_us": [1] * count,
            "done_us": [2] * count,
            "assignment": pa.array(said, pa.binary()),
        }
    )
    (made,) = read_assignments([batch])
    assert made["member_id"].to_pylist() == batch["member_id"].to_pylist()
    return [
        (
            row["is_read"],
            row["given"] and {each["topic"]: each["partitions"] for each in row["given"]},
        )
        for row in made.to_pylist()
    ]


def test_every_version_is_read() -> None:
    assert read(*(assignment(GIVEN, version) for version in range(4))) == [(True, GIVEN)] * 4


def test_no_bytes_are_nothing_assigned() -> None:
    assert read(b"", assignment({}, 1)) == [(True, None), (True, [])]


def test_what_is_no_assignment_of_consumers_is_told_as_not_read() -> None:
    whole = assignment(GIVEN, 1)
    cut = [whole[:size] for size in range(1, len(whole) - 4)]
    hostile = [b"\0\1\x7f\xff\xff\xff", b"\xff\xff" + whole[2:], b"\0\1\0\0\0\1\0\1\xff\0\0\0\0"]
    assert read(*cut, *hostile) == [(False, None)] * (len(cut) + len(hostile))


def test_neighbours_of_what_cannot_be_read_are() -> None:
    whole = assignment(GIVEN, 0)
    assert read(b"\0\1\0", whole, b"x", whole) == [
        (False, None), (True, GIVEN), (False, None), (True, GIVEN)
    ]  # fmt: skip
