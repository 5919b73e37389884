"""Unit tests of reading segments: rows, problems of damaged files, and search in directories."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.lab.columnar.records.data_directories import (
    PROBLEMS,
    RECORDS,
    LogOptions,
    Segment,
    find_segments,
    read_segment,
    schema_of,
    segments_of,
    table_names,
)
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.storage.batch import build_batch
from kafkalite.storage.message_format import Message, encode_message
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START = 1_700_000_000_000
NAME = "/data/orders-3/00000000000000000070.log"


def batch(first: int, count: int = 2, attributes: int = 0) -> bytes:
    rows = [NewRecord(b"%d" % n, b"v" * 50, START + n) for n in range(first, first + count)]
    return build_batch(rows, base_offset=first, attributes=attributes)


def tables(found: Iterable[tuple[str, pa.RecordBatch]]) -> dict[str, list[dict[str, object]]]:
    made: dict[str, list[dict[str, object]]] = {}
    for table, rows in found:
        assert rows.schema.equals(schema_of(table))
        made.setdefault(table, []).extend(rows.to_pylist())
    return made


def offsets(made: dict[str, list[dict[str, object]]]) -> list[object]:
    return [row["offset"] for row in made.get(RECORDS, [])]


def test_segments_are_recognised_by_their_paths() -> None:
    paths = [
        NAME,
        "/data/orders-3/00000000000000000000.log",
        "/data/orders-3/00000000000000000000.index",
        "/data/orders-3/00000000000000000000.log.deleted",
        "/data/orders-3.0123-delete/00000000000000000000.log",
        "/data/with-dash-12/00000000000000000005.log",
        "/data/meta.properties",
    ]

    assert segments_of(paths) == [
        Segment("orders", 3, 0, paths[1]),
        Segment("orders", 3, 70, NAME),
        Segment("with-dash", 12, 5, paths[5]),
    ]


def test_segments_are_found_in_data_and_partition_directories(tmp_path: Path) -> None:
    partition = tmp_path / "orders-3"
    partition.mkdir()
    (partition / "00000000000000000070.log").write_bytes(b"")
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"")
    expected = [Segment("orders", 3, 70, str(partition / "00000000000000000070.log"))]

    assert find_segments(OsFiles(), str(tmp_path)) == expected
    assert find_segments(OsFiles(), str(partition)) == expected


@pytest.mark.parametrize("chunk_bytes", [1, 100, 1 << 20])
def test_records_have_file_topic_partition_and_position(chunk_bytes: int) -> None:
    data = batch(70) + batch(72, attributes=4) + batch(80, 1)

    made = tables(read_segment(BytesIO(data), NAME, LogOptions(chunk_bytes=chunk_bytes)))

    assert list(made) == [RECORDS]
    assert offsets(made) == [70, 71, 72, 73, 80]
    last = made[RECORDS][-1]
    assert (last["file"], last["topic"], last["partition"]) == (NAME, "orders", 3)
    assert last["position"] == len(batch(70)) + len(batch(72, attributes=4))
    assert last["key"] == b"80"


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_torn_end_loses_only_the_last_batch(chunk_bytes: int) -> None:
    data = batch(70) + batch(72)
    torn = data[:-1]

    made = tables(read_segment(torn, NAME, LogOptions(chunk_bytes=chunk_bytes)))

    assert offsets(made) == [70, 71]
    (problem,) = made[PROBLEMS]
    assert problem["kind"] == "truncated block"
    assert problem["offset"] == len(batch(70))
    assert "orders-3: truncated batch: only" in str(problem["detail"])


def test_corrupt_batches_are_counted_and_skipped() -> None:
    bad = bytearray(batch(72))
    bad[-1] ^= 255
    data = batch(70) + bytes(bad) * 3 + batch(80)

    made = tables(read_segment(data, NAME))

    assert offsets(made) == [70, 71, 80, 81]
    (problem,) = made[PROBLEMS]
    assert (problem["kind"], problem["count"]) == ("corrupt block", 3)


def test_rest_of_file_after_invalid_length_is_not_read() -> None:
    made = tables(read_segment(batch(70) + bytes(4096), NAME))

    assert offsets(made) == [70, 71]
    assert [row["detail"] for row in made[PROBLEMS]] == [
        "orders-3: invalid batch length 0; the rest of the file was not read"
    ]


def test_only_records_in_the_time_range_are_returned() -> None:
    data = b"".join(batch(70 + 2 * number) for number in range(10))
    options = LogOptions(from_ms=START + 75, until_ms=START + 78)

    assert offsets(tables(read_segment(data, NAME, options))) == [75, 76, 77]


def test_offset_commits_are_decoded() -> None:
    key = codec.encode_key(OffsetCommitKey(group="g", topic="orders", partition=3))
    value = codec.encode_value(OffsetCommitValue(offset=41, commit_timestamp=START), 3)
    rows = [NewRecord(key, value, START), NewRecord(key, None, START), NewRecord(b"?", None, START)]
    name = "/data/__consumer_offsets-7/00000000000000000000.log"

    made = tables(read_segment(build_batch(rows), name))

    assert [row["offset"] for row in made["offset_commit"]] == [0, 1]
    first, tombstone = made["offset_commit"]
    assert first["key"] == {"group": "g", "topic": "orders", "partition": 3}
    assert isinstance(first["value"], dict)
    assert first["value"]["offset"] == 41
    assert tombstone["value"] is None
    assert [row["detail"] for row in made[PROBLEMS]] == ["__consumer_offsets-7: key without a type"]

    only = LogOptions(tables=frozenset({"offset_commit"}))
    assert list(tables(read_segment(build_batch(rows), name, only))) == ["offset_commit"]


def test_every_table_has_a_schema() -> None:
    names = table_names()
    assert {"records", "offset_commit", "transaction_log", "problems"} <= set(names)
    assert all(isinstance(schema_of(name), pa.Schema) for name in names)


@pytest.mark.parametrize("cut", range(0, 400, 23))
def test_corrupt_bytes_do_not_raise(cut: int) -> None:
    data = bytearray(batch(70) + batch(72, attributes=2) + batch(74, attributes=1))
    data[cut : cut + 3] = b"\xff\x00\x7f"

    for _ in read_segment(bytes(data), NAME):
        pass


@pytest.mark.parametrize("chunk_bytes", [10, 1 << 20])
def test_a_log_that_an_upgraded_broker_continued_is_read(chunk_bytes: int) -> None:
    old = [encode_message(Message(n, n % 2, 0, START + n, b"k", b"v")) for n in range(70, 75)]
    data = b"".join(old) + batch(75)

    made = tables(read_segment(data, NAME, LogOptions(chunk_bytes=chunk_bytes)))

    assert made.keys() == {RECORDS}
    assert offsets(made) == list(range(70, 77))
    ends = np.cumsum([len(each) for each in old]).tolist()
    assert [row["position"] for row in made[RECORDS]] == [0, *ends, ends[-1]]
    limited = LogOptions(chunk_bytes=chunk_bytes, from_ms=START + 73, until_ms=START + 76)
    assert offsets(tables(read_segment(data, NAME, limited))) == [73, 75]
