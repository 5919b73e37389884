"""Records, batches and compaction against what hypothesis thinks of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.batch import TRANSACTIONAL, BatchView, Producer, build_batch
from kafkalite.storage.cleaning import clean
from kafkalite.storage.compaction import compaction_of
from kafkalite.storage.log import Log
from kafkalite.storage.records import (
    MalformedRecordsError,
    NewRecord,
    key_values,
    read_varint,
    scan_records,
    varint,
)
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import records_of

INT64 = st.integers(-(2**63), 2**63 - 1)
# Lengths around those at which a varint grows by a byte.
SIZES = st.one_of(st.integers(0, 3), st.sampled_from((63, 64, 65, 127, 128, 8191, 8192)))
BLOBS = st.one_of(st.none(), st.binary(max_size=20), SIZES.map(bytes))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BLOBS), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(NewRecord, BLOBS, BLOBS, st.integers(-1, 2**62), HEADERS), min_size=1, max_size=8
)


@given(INT64)
def test_varints_come_back(value: int) -> None:
    data = varint(value)
    assert len(data) <= 10
    assert read_varint(data, 0) == (value, len(data))


@given(RECORDS, st.integers(0, 4), st.integers(0, 2**62))
def test_batches_come_back(records: list[NewRecord], codec: int, base_offset: int) -> None:
    view = BatchView(
        build_batch(
            records,
            base_offset=base_offset,
            attributes=codec | TRANSACTIONAL,
            producer=Producer(5, 6, 7),
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
def test_compaction_changes_nothing_that_a_reader_ends_up_with(
    updates: list[list[tuple[bytes, bytes | None]]], times: list[int], codec: int
) -> None:
    files = MemoryFiles()
    log = Log.open(files, "data/t-0", COMPACT, now_ms=0)
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    wanted: dict[bytes, bytes] = {}
    now_ms = 0
    pauses = {len(updates) * number // 5: pause for number, pause in enumerate(times, 1)}
    for number, update in enumerate(updates):
        for delta, (key, value) in enumerate(update):
            written[log.end_offset + delta] = (key, value)
            if value is None:
                wanted.pop(key, None)
            else:
                wanted[key] = value
        records = [NewRecord(key, value, 1000) for key, value in update]
        batch = BatchView(build_batch(records, attributes=codec))
        log.append([batch], leader_epoch=0, now_ms=now_ms)
        if number in pauses:
            now_ms += pauses[number]
            log.roll(now_ms)
            compact(log, now_ms)
            judge(log, written, wanted)
    log.roll(now_ms)
    compact(log, now_ms)
    judge(log, written, wanted)
    judge(Log.open(files, "data/t-0", COMPACT, now_ms=0), written, wanted)
    live = [record for record in records_of(log) if record.value is not None]
    assert len(live) == len(wanted), "a value that was overwritten is still there"


def compact(log: Log, now_ms: int) -> None:
    plan = compaction_of(log, last_stable_offset=log.end_offset, now_ms=now_ms)
    if plan is not None:
        for _ in clean(log, plan, now_ms=now_ms):
            pass


def judge(
    log: Log,
    written: dict[int, tuple[bytes | None, bytes | None]],
    wanted: dict[bytes, bytes],
) -> None:
    assert log.end_offset == len(written)
    table: dict[bytes | None, bytes] = {}
    last = -1
    for record in records_of(log):
        assert record.offset > last
        last = record.offset
        assert written[record.offset] == (record.key, record.value)
        assert record.timestamp == 1000
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    assert table == wanted
