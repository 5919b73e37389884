"""Rows of the records of coordinators: the states of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.lab.checker.books.coordinator_logs import CoordinatorLogs, logged_marker
from kafkalite.lab.checker.books.model import Books
from kafkalite.lab.checker.history import LogProof
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.shares.share_state_records import (
    share_snapshot_record,
    share_snapshot_tombstone,
    share_update_record,
    written_version,
)
from kafkalite.shares.state import ShareKey, ShareState, StateBatch
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from kafkalite.coordinator.contract import CoordinatorRecord

KEY = ShareKey("sharers", bytes(range(16)), 0)
SERDE = CoordinatorSerde(written_version, "share")
LARGEST = (1 << 63) - 1


def books_of(*records: CoordinatorRecord[object, object]) -> Books:
    books = Books()
    logs = CoordinatorLogs(books)
    for offset, record in enumerate(records):
        new = NewRecord(*SERDE.encode(record), 0)
        proof = LogProof("segment", 0, offset)
        logs.add(SHARE_STATE_TOPIC, BatchView(build_batch([new])), proof)
    logs.finish()
    return books


def snapshot(*batches: StateBatch) -> CoordinatorRecord[object, object]:
    return share_snapshot_record(KEY, ShareState(0, 0, 0, 5, -1, batches, 0, 0))


def update(start_offset: int, *batches: StateBatch) -> CoordinatorRecord[object, object]:
    return share_update_record(KEY, 0, 0, start_offset, -1, batches)


def test_updates_change_the_state_of_a_snapshot() -> None:
    books = books_of(
        snapshot(StateBatch(5, 9, 2, 1), StateBatch(10, 19, 0, 1)),
        update(-1, StateBatch(8, 12, 4, 2)),
        update(7),
    )
    share = books.shares[KEY]
    assert (share.start_offset, share.proof.offset) == (7, 2)
    assert share.batches == (
        StateBatch(7, 7, 2, 1), StateBatch(8, 12, 4, 2), StateBatch(13, 19, 0, 1),
    )  # fmt: skip


def test_a_batch_of_all_offsets_is_one_row_and_an_inverted_one_is_unreadable() -> None:
    books = books_of(snapshot(StateBatch(5, LARGEST, 2, 1)), update(-1, StateBatch(9, 8, 2, 1)))
    assert books.shares[KEY].batches == (StateBatch(5, LARGEST, 2, 1),)
    assert books.unreadable == 1


def test_a_tombstone_removes_the_state() -> None:
    assert not books_of(snapshot(), share_snapshot_tombstone(KEY)).shares


def test_a_damaged_control_batch_has_no_marker() -> None:
    batch = bytearray(build_batch([NewRecord(b"", b"", 0)], attributes=1 << 5))
    batch[22] |= 7  # no compression has this number
    assert logged_marker(BatchView(bytes(batch))) is None
