"""Producer snapshots: their content, and which one is loaded."""

from __future__ import annotations

import pytest

from kafkalite.storage.producer_snapshot import (
    decode_snapshot,
    encode_snapshot,
    load_snapshot,
    remove_snapshots,
    snapshot_offsets,
    snapshot_path,
    take_snapshot,
)
from kafkalite.storage.producer_state import AppendedBatch, ProducerEntry, ProducerStateTable
from kafkalite.testing.files import MemoryFiles

ENTRIES = [
    ProducerEntry(
        1,
        producer_epoch=2,
        coordinator_epoch=3,
        last_timestamp=4000,
        transaction_first_offset=50,
        batches=[AppendedBatch(6, 8, 90, 92, 4000)],
    ),
    ProducerEntry(7, producer_epoch=0, last_timestamp=10),
    ProducerEntry(
        9, producer_epoch=0, last_timestamp=10, batches=[AppendedBatch(2**31 - 1, 1, 5, 7, 10)]
    ),
]


def fields_of(entry: ProducerEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in ProducerEntry.__slots__)


# The first of them, assembled by hand from the format's description.
BYTES = bytes.fromhex(
    "0001 971db431 00000001 0000000000000001 0002 00000008 000000000000005c 00000002 "
    "0000000000000fa0 00000003 0000000000000032"
)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("d")
    return files


def test_snapshot_has_kafkas_format() -> None:
    assert encode_snapshot(ProducerStateTable(ENTRIES[:1])) == BYTES


def test_written_snapshot_is_read_back() -> None:
    decoded = decode_snapshot(encode_snapshot(ProducerStateTable(ENTRIES)))
    assert decoded is not None
    assert list(map(fields_of, decoded.entries)) == list(map(fields_of, ENTRIES))
    assert decoded.first_unstable_offset == 50


def test_snapshot_has_the_last_batch_only() -> None:
    batches = [AppendedBatch(0, 0, 10, 10, 1), AppendedBatch(1, 1, 11, 11, 2)]
    table = ProducerStateTable(
        [ProducerEntry(1, producer_epoch=0, last_timestamp=2, batches=batches)]
    )
    decoded = decode_snapshot(encode_snapshot(table))
    assert decoded is not None
    assert decoded.entries[0].batches == batches[1:]


def test_any_damage_is_detected() -> None:
    for position in range(len(BYTES)):
        damaged = bytearray(BYTES)
        damaged[position] ^= 1
        assert decode_snapshot(bytes(damaged)) is None
        assert decode_snapshot(BYTES[:position]) is None


def test_newest_intact_snapshot_up_to_the_offset_is_loaded(files: MemoryFiles) -> None:
    for number in range(4):
        table = ProducerStateTable(ENTRIES[:number])
        take_snapshot(files, "d", 5 * number + 5, table)
    files.open(snapshot_path("d", 15)).truncate(9)
    offset, table = load_snapshot(files, "d", 19)
    assert (offset, len(table)) == (10, 1)
    assert snapshot_offsets(files, "d") == [5, 10]


def test_without_a_snapshot_the_table_is_empty(files: MemoryFiles) -> None:
    offset, table = load_snapshot(files, "d", 19)
    assert offset is None
    assert len(table) == 0


def test_old_snapshots_are_removed(files: MemoryFiles) -> None:
    for offset in (5, 10, 15):
        take_snapshot(files, "d", offset, ProducerStateTable())
    remove_snapshots(files, "d", keep={10, 99})
    assert snapshot_offsets(files, "d") == [10]
