"""Connect's records about tasks, found among other records of the configuration topic."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.lab.spark.state.connect import configuration, read_configurations
from tests.conformance.batches import Batch

ABOUT_TASKS = [
    (b"commit-a", b'{"tasks":3}', ("a", "task configurations", 3)),
    (b"tasks-fencing-a-b", b'{"task-count":0}', ("a-b", "task count", 0)),
    (b"tasks-count-reddit", b'{"tasks": 11}', ("reddit", "task count", 11)),
    (
        b"commit-a",
        b'{"schema":{"type":"struct"},"payload":{"tasks":2}}',
        ("a", "task configurations", 2),
    ),
]
OTHERS = [
    (b"task-a-0", b'{"properties":{}}'),
    (b"commit-a", None),
    (None, b'{"tasks":3}'),
    (b"commit-\xff", b'{"tasks":3}'),
    (b"commit-a", b"\xff"),
    (b"commit-a", b'{"tasks":"3"}'),
    (b"commit-a", b'{"tasks":true}'),
    (b"commit-a", b'{"tasks":-1}'),
    (b"commit-a", b'{"tasks":99999999999}'),
    (b"commit-a", b"[3]"),
    (b"commit-a", b"[" * 100_000),
]


@pytest.mark.parametrize(("key", "value", "expected"), ABOUT_TASKS)
def test_records_about_tasks_are_decoded(
    key: bytes, value: bytes, expected: tuple[str, str, int]
) -> None:
    assert configuration(key, value) == expected


@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_other_records_are_skipped(key: bytes | None, value: bytes | None) -> None:
    assert configuration(key, value) is None


def test_damaged_batches_are_skipped_and_others_decoded() -> None:
    good = Batch(key=b"commit-a", values=(b'{"tasks":1}', b"{}", b'{"tasks":2}')).encode()
    wrong = Batch(key=b"commit-b", values=(b'{"tasks":1}',), crc_error=1).encode()
    records = [wrong, good, good[:-9], good + wrong]
    batch = pa.RecordBatch.from_pydict(
        {
            "connect_group": ["workers"] * 4,
            "client": [f"client-{number}" for number in range(4)],
            "start_us": [10] * 4,
            "end_us": [11] * 4,
            "records": pa.array(records, pa.binary()),
        }
    )
    (made,) = read_configurations([batch])
    rows = [(row["client"], row["connector"], row["tasks"]) for row in made.to_pylist()]
    read = [("a", 1), ("a", 2)]
    assert rows == [("client-1", *row) for row in read] + [("client-3", *row) for row in read]
    places = [row["record_index"] for row in made.to_pylist()[:2]]
    assert places == sorted(places)
