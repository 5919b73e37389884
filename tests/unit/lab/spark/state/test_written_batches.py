"""Counts of the batches of idempotent producers."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from kafkalite.lab.spark.stages.projection import type_at
from kafkalite.lab.spark.state.written_batches import count_batches
from kafkalite.protocol.api_keys import ApiKey


def records(producer: bytes, sequence: int) -> bytes:
    return bytes(43) + producer + bytes(2) + sequence.to_bytes(4) + b"more"


SENT: Final = records(b"producer", 7)
NEXT: Final = records(b"producer", 8)
NOT_IDEMPOTENT: Final = records(b"\xff" * 8, 7)


def test_equal_batches_of_a_client_and_partition_are_counted() -> None:
    requests: list[tuple[str, list[tuple[str, int, bytes | None]]]] = [
        ("c:1", [("t", 0, SENT), ("t", 1, SENT)]),
        ("c:1", [("t", 0, SENT), ("t", 1, NEXT)]),
        ("d:1", [("t", 0, SENT)]),
        ("c:1", [("u", 0, SENT), ("t", 2, NOT_IDEMPOTENT), ("t", 2, None), ("t", 2, SENT[:56])]),
    ]
    written = [
        [
            {"name": topic, "partition_data": [{"index": index, "records": sent}]}
            for topic, index, sent in partitions
        ]
        for _, partitions in requests
    ]
    table = pa.table(
        {
            "client": pa.array([client for client, _ in requests], pa.string()),
            "client_id": pa.array([None for _ in requests], pa.string()),
            "written": pa.array(written, type_at(int(ApiKey.PRODUCE), "request.topic_data")),
        }
    )
    found = {
        (row["client"], row["topic"], row["partition"], row["batch"][-1]): row["times"]
        for row in count_batches(table).to_pylist()
    }
    assert found == {
        ("c:1", "t", 0, 7): 2,
        ("c:1", "t", 1, 7): 1,
        ("c:1", "t", 1, 8): 1,
        ("c:1", "u", 0, 7): 1,
        ("d:1", "t", 0, 7): 1,
    }
    assert count_batches(table[:0]).num_rows == 0
