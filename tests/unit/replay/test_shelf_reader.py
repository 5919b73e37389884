"""Fetch answered by offset from what a capture shows."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.replay.library import Library
from kafkalite.replay.shelf_reader import read_shelves
from kafkalite.storage.batch import BatchView, ControlKind, Producer, split_batches
from tests.unit.replay.recorded import batch

TOPIC_ID = bytes(range(16))
ABORTED, OPEN = Producer(1, 0, 0), Producer(2, 0, 0)


@pytest.fixture
def library() -> Library:
    """Give a partition: two records, an aborted transaction, and one that is open."""
    library = Library()
    library.names[TOPIC_ID] = "t"
    shelf = library.shelf("t", 0)
    for data in (
        batch("a", "b"),
        batch("x", offset=2, producer=ABORTED, is_transactional=True),
    ):
        shelf.place(BatchView(data), is_as_stored=True)
    shelf.end_transaction(1, 0, ControlKind.ABORT)
    open_batch = batch("y", offset=4, producer=OPEN, is_transactional=True)
    shelf.place(BatchView(open_batch), is_as_stored=True)
    return library


def ask(
    library: Library,
    offset: int,
    *,
    isolation: int = 0,
    max_bytes: int = 1 << 20,
    partition: int = 0,
) -> tuple[FetchResponse.PartitionData, int]:
    wanted = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=500,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
    )
    response, wait_ms = read_shelves(library, request)
    assert response.session_id == 0
    return response.responses[0].partitions[0], wait_ms


def offsets(row: FetchResponse.PartitionData) -> list[int]:
    return [each.base_offset for each in split_batches(bytes(row.records or b""))]


def test_records_come_from_the_batch_that_holds_the_offset(library: Library) -> None:
    row, wait_ms = ask(library, 1)

    assert offsets(row) == [0, 2, 3, 4]
    assert (row.high_watermark, row.last_stable_offset, wait_ms) == (5, 4, 0)
    assert row.aborted_transactions is None


def test_committed_reads_end_before_what_is_open_and_name_what_was_aborted(
    library: Library,
) -> None:
    row, _ = ask(library, 0, isolation=1)

    assert offsets(row) == [0, 2, 3]
    assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()] == [
        (1, 2)
    ]


def test_at_the_end_a_client_waits_as_long_as_it_said(library: Library) -> None:
    row, wait_ms = ask(library, 5)

    assert (offsets(row), row.error_code, wait_ms) == ([], 0, 500)


@pytest.mark.parametrize("offset", [-1, 6])
def test_offsets_outside_are_out_of_range(library: Library, offset: int) -> None:
    row, wait_ms = ask(library, offset)

    assert (row.error_code, wait_ms) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)


def test_a_partition_that_nobody_saw_is_unknown(library: Library) -> None:
    row, _ = ask(library, 0, partition=7)

    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_answer_holds_one_batch_at_least_and_no_more_than_there_is_room_for(
    library: Library,
) -> None:
    row, _ = ask(library, 0, max_bytes=1)

    assert offsets(row) == [0]
