"""Records, batches and compaction with random data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.background import run_steps
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView, build_batch
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log import Log
from kafkalite.storage.log_cleaner import clean
from kafkalite.storage.record_format import (
    MalformedRecordsError,
    NewRecord,
    encode_varint,
    key_values,
    read_varint,
    scan_records,
)
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import records_of

INT64 = st.integers(-(2**63), 2**63 - 1)
# Lengths at which a varint grows by a byte.
SIZES = st.one_of(st.integers(0, 3), st.sampled_from((63, 64, 65, 127, 128, 8191, 8192)))
BLOBS = st.one_of(st.none(), st.binary(max_size=20), SIZES.map(bytes))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BLOBS), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(NewRecord, BLOBS, BLOBS, st.integers(-1, 2**62), HEADERS), min_size=1, max_size=8
)


@given(INT64)
def test_varints_are_read_back(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= 10
    assert read_varint(data, 0) == (value, len(data))


@given(RECORDS, st.integers(0, 4), st.integers(0, 2**62))
def test_batches_are_read_back(records: list[NewRecord], codec: int, base_offset: int) -> None:
    view = BatchView(
        build_batch(
            records,
            base_offset=base_offset,
            attributes=codec | TRANSACTIONAL,
            producer=BatchProducer(5, 6, 7),
        )
    )
    assert view.has_valid_crc()
    assert [(r.key, r.value, r.timestamp, r.headers) for r in view.records()] == records
    assert [r.offset for r in view.records()] == list(
        range(base_offset, base_offset + len(records))
    )
    assert list(view.key_values()) == [(record.key, record.value) for record in records]


@given(st.binary(max_size=60), st.integers(-1, 4))
def test_any_bytes_are_records_or_refused(data: bytes, count: int) -> None:
    for read in (scan_records, key_values):
        try:
            list(read(data, count))
        except MalformedRecordsError:
            continue


COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=100,
)
UPDATES = st.lists(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"1", b"2", None])),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=25,
)


@given(UPDATES, st.lists(st.integers(0, 300), max_size=4), st.integers(0, 4))
def test_compaction_preserves_the_latest_values(
    updates: list[list[tuple[bytes, bytes | None]]], times: list[int], codec: int
) -> None:
    files = MemoryFiles()
    log = Log.open(files, "data/t-0", COMPACT, now_ms=0)
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    expected: dict[bytes, bytes] = {}
    now_ms = 0
    pauses = {len(updates) * number // 5: pause for number, pause in enumerate(times, 1)}
    for number, update in enumerate(updates):
        for delta, (key, value) in enumerate(update):
            written[log.end_offset + delta] = (key, value)
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        records = [NewRecord(key, value, 1000) for key, value in update]
        batch = BatchView(build_batch(records, attributes=codec))
        log.append([batch], leader_epoch=0, now_ms=now_ms)
        if number in pauses:
            now_ms += pauses[number]
            log.roll(now_ms)
            compact(log, now_ms)
            check(log, written, expected)
    log.roll(now_ms)
    compact(log, now_ms)
    check(log, written, expected)
    check(Log.open(files, "data/t-0", COMPACT, now_ms=0), written, expected)
    live = [record for record in records_of(log) if record.value is not None]
    assert len(live) == len(expected), "a value that was overwritten is still there"


def compact(log: Log, now_ms: int) -> None:
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=now_ms)
    if plan is not None:
        run_steps(clean(log, plan, now_ms=now_ms))


def check(
    log: Log,
    written: dict[int, tuple[bytes | None, bytes | None]],
    expected: dict[bytes, bytes],
) -> None:
    assert log.end_offset == len(written)
    table: dict[bytes | None, bytes] = {}
    last_offset = -1
    for record in records_of(log):
        assert record.offset > last_offset
        last_offset = record.offset
        assert written[record.offset] == (record.key, record.value)
        assert record.timestamp == 1000
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    assert table == expected
