"""Bytes and high watermarks of partitions, as tasks compute them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.spark.stages.projection import type_at
from kafkalite.lab.spark.state.partition_sums import sum_fetched, sum_produced
from kafkalite.protocol.api_keys import ApiKey

BUCKET: Final = 1_000
PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
ORDINARY: Final = b"\xff" * 8


def records(count: int, producer: bytes = ORDINARY) -> bytes:
    return bytes(43) + producer + bytes(6) + count.to_bytes(4) + b"records"


class Written(NamedTuple):
    """A partition of a Produce request, and its answer."""

    topic: str
    partition: int
    records: bytes | None
    error: int
    base_offset: int
    is_answered: bool


WRITTEN: Final = st.builds(
    Written,
    st.sampled_from("tu"),
    st.integers(0, 2),
    st.sampled_from([None, b"", bytes(59), records(1), records(7), records(7, b"producer")]),
    st.sampled_from([0, 0, 6]),
    st.sampled_from([-1, 0, 50]),
    st.booleans(),
)
REQUESTS: Final = st.lists(
    st.tuples(
        st.integers(0, 2 * BUCKET),
        st.booleans(),
        st.lists(WRITTEN, max_size=4, unique_by=lambda each: (each.topic, each.partition)),
    ),
    max_size=8,
)


def produce_table(requests: list[tuple[int, bool, list[Written]]]) -> pa.Table:
    asked, answers = [], []
    for _, is_answered, partitions in requests:
        topics = dict.fromkeys(each.topic for each in partitions)
        asked.append(
            [
                {
                    "name": topic,
                    "partition_data": [
                        {"index": each.partition, "records": each.records}
                        for each in partitions
                        if each.topic == topic
                    ],
                }
                for topic in topics
            ]
        )
        # Brokers may answer the partitions of a topic in another order.
        answered: list[Any] = [
            {
                "name": topic,
                "partition_responses": [
                    {
                        "index": each.partition,
                        "error_code": each.error,
                        "base_offset": each.base_offset,
                    }
                    for each in reversed(partitions)
                    if each.topic == topic and each.is_answered
                ],
            }
            for topic in topics
        ]
        answers.append(answered if is_answered else None)
    ends = [at if is_answered else None for at, is_answered, _ in requests]
    return pa.table(
        {
            "start_us": pa.array([at for at, _, _ in requests], pa.int64()),
            "end_us": pa.array(ends, pa.int64()),
            "written": pa.array(asked, type_at(PRODUCE, "request.topic_data")),
            "answers": pa.array(answers, type_at(PRODUCE, "response.responses")),
        }
    )


@given(REQUESTS)
def test_produced_bytes_and_watermarks(requests: list[tuple[int, bool, list[Written]]]) -> None:
    expected: dict[tuple[str, int, int], tuple[int, int]] = {}
    for at, is_answered, partitions in requests:
        for each in partitions:
            key = (each.topic, each.partition, at // BUCKET * BUCKET)
            size, highest = expected.get(key, (0, -1))
            is_known = is_answered and each.is_answered and each.error == 0
            if is_known and each.base_offset >= 0 and len(each.records or b"") > 60:
                count = int.from_bytes((each.records or b"")[57:61])
                highest = max(highest, each.base_offset + count)
            expected[key] = (size + len(each.records or b""), highest)
    table = produce_table(requests)
    # A slice of a larger table has offsets into its buffers.
    padded = pa.concat_tables([table, table]).combine_chunks()[len(table) :]
    found = {
        (row["topic"], row["partition"], row["bucket_us"]): (
            row["bytes_in"] or 0,
            -1 if row["high_watermark"] is None else row["high_watermark"],
        )
        for row in sum_produced(padded, BUCKET).to_pylist()
    }
    assert found == expected


def test_fetched_bytes_and_watermarks() -> None:
    def response(*partitions: tuple[int, int, bytes | None]) -> list[Any]:
        rows = [
            {
                "partition_index": 0,
                "error_code": error,
                "high_watermark": highest,
                "records": fetched,
            }
            for error, highest, fetched in partitions
        ]
        return [{"topic": "", "topic_id": b"i" * 16, "partitions": rows}]

    answers = [response((0, 7, b"abc")), response((1, 99, None), (0, -1, b"d")), None, []]
    table = pa.table(
        {
            "start_us": pa.array([5, 6, 7, 8], pa.int64()),
            "end_us": pa.array([9, 10, None, 12], pa.int64()),
            "read": pa.array(answers, type_at(FETCH, "response.responses")),
        }
    )
    sums = {"topic": "", "topic_id": b"i" * 16, "partition": 0, "bucket_us": 0}
    assert sum_fetched(table, BUCKET).to_pylist() == [
        {**sums, "bytes_in": None, "bytes_out": 4, "high_watermark": 7}
    ]
    assert sum_fetched(table[2:], BUCKET).num_rows == 0
