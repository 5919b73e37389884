"""Responses to Fetch, composed by offset from recorded batches."""

from __future__ import annotations

import pytest

from kafkalite.lab.replay.standin.fetch import answer_full_fetch
from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchProducer, BatchView, ControlKind, split_batches
from tests.unit.lab.replay.recording import batch

TOPIC_ID = bytes(range(16))
ABORTED, OPEN = BatchProducer(1, 0, 0), BatchProducer(2, 0, 0)


@pytest.fixture
def recorded_cluster() -> RecordedCluster:
    """Return a cluster with two records, an aborted transaction and an open transaction."""
    recorded_cluster = RecordedCluster()
    recorded_cluster.topic_names[TOPIC_ID] = "t"
    partition = recorded_cluster.partition("t", 0)
    for data in (
        batch("a", "b"),
        batch("x", offset=2, producer=ABORTED, is_transactional=True),
    ):
        partition.add_batch(BatchView(data), is_stored_form=True)
    partition.end_transaction(1, 0, ControlKind.ABORT)
    open_batch = batch("y", offset=4, producer=OPEN, is_transactional=True)
    partition.add_batch(BatchView(open_batch), is_stored_form=True)
    return recorded_cluster


def fetch(
    recorded_cluster: RecordedCluster,
    offset: int,
    *,
    isolation: int = 0,
    max_bytes: int = 1 << 20,
    partition: int = 0,
) -> tuple[FetchResponse.PartitionData, int]:
    requested = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=500,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[requested])],
    )
    response, wait_ms = answer_full_fetch(recorded_cluster, request)
    assert response.session_id == 0
    return response.responses[0].partitions[0], wait_ms


def offsets(row: FetchResponse.PartitionData) -> list[int]:
    return [batch.base_offset for batch in split_batches(bytes(row.records or b""))]


def test_fetch_starts_with_the_batch_that_has_the_offset(
    recorded_cluster: RecordedCluster,
) -> None:
    row, wait_ms = fetch(recorded_cluster, 1)

    assert offsets(row) == [0, 2, 3, 4]
    assert (row.high_watermark, row.last_stable_offset, wait_ms) == (5, 4, 0)
    assert row.aborted_transactions is None


def test_read_committed_ends_at_open_transaction_and_lists_aborted_ones(
    recorded_cluster: RecordedCluster,
) -> None:
    row, _ = fetch(recorded_cluster, 0, isolation=1)

    assert offsets(row) == [0, 2, 3]
    assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()] == [
        (1, 2)
    ]


def test_fetch_at_the_end_waits_for_max_wait(recorded_cluster: RecordedCluster) -> None:
    row, wait_ms = fetch(recorded_cluster, 5)

    assert (offsets(row), row.error_code, wait_ms) == ([], 0, 500)


@pytest.mark.parametrize("offset", [-1, 6])
def test_offset_outside_the_log_is_out_of_range(
    recorded_cluster: RecordedCluster, offset: int
) -> None:
    row, wait_ms = fetch(recorded_cluster, offset)

    assert (row.error_code, wait_ms) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)


def test_unrecorded_partition_is_unknown(recorded_cluster: RecordedCluster) -> None:
    row, _ = fetch(recorded_cluster, 0, partition=7)

    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_response_has_at_least_one_batch_and_respects_max_bytes(
    recorded_cluster: RecordedCluster,
) -> None:
    row, _ = fetch(recorded_cluster, 0, max_bytes=1)

    assert offsets(row) == [0]
