"""Topics, records and committed offsets learned from a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.replay.standin.recorded_cluster import (
    CommittedOffset,
    PartitionId,
    RecordedCluster,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol._generated.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkalite.storage.batch import BatchProducer, BatchView, ControlKind
from tests.unit.lab.replay.recording import Recording, batch

if TYPE_CHECKING:
    from kafkalite.lab.replay.standin.recorded_cluster import RecordedPartition

TOPIC_ID = bytes(range(16))
PRODUCER = BatchProducer(77, 3, 0)


def add_produce(
    recording: Recording, records: bytes, base_offset: int, *, error: int = 0, topic: str = "t"
) -> None:
    recording.add(
        ProduceRequest(
            acks=-1,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic,
                    partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)],
                )
            ],
        ),
        ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic,
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(
                            index=0, error_code=error, base_offset=base_offset
                        )
                    ],
                )
            ]
        ),
        9,
    )


def add_fetch(recording: Recording, records: bytes, *, high_watermark: int) -> None:
    recording.add(
        FetchRequest(topics=[]),
        FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        FetchResponse.PartitionData(
                            partition_index=0,
                            high_watermark=high_watermark,
                            log_start_offset=0,
                            records=records,
                        )
                    ],
                )
            ]
        ),
        12,
    )


def add_end_txn(recording: Recording, *, committed: bool) -> None:
    recording.add(
        EndTxnRequest(transactional_id="tx", producer_id=77, producer_epoch=3, committed=committed),
        EndTxnResponse(),
        3,
    )


def partition_of(recording: Recording) -> RecordedPartition:
    return RecordedCluster.from_exchanges(recording.exchanges).partitions[PartitionId("t", 0)]


def offset_ranges(partition: RecordedPartition) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.last_offset) for batch in partition.batches]


def test_produced_records_have_the_offsets_of_the_responses() -> None:
    recording = Recording()
    add_produce(recording, batch("c", "d"), 2)
    add_produce(recording, batch("a", "b"), 0)
    add_produce(recording, batch("refused"), 9, error=87)

    partition = partition_of(recording)

    assert offset_ranges(partition) == [(0, 1), (2, 3)]
    assert partition.end_offset == 4
    assert [value for batch in partition.batches for _, value in batch.key_values()] == [
        b"a", b"b", b"c", b"d",
    ]  # fmt: skip
    assert all(batch.has_valid_crc() for batch in partition.batches)


def test_fetched_batches_replace_produced_batches() -> None:
    recording = Recording()
    add_produce(recording, batch("a"), 0)
    add_produce(recording, batch("b"), 1)
    add_fetch(recording, batch("A", "B", offset=0), high_watermark=7)
    add_produce(recording, batch("late"), 1)

    partition = partition_of(recording)

    assert offset_ranges(partition) == [(0, 1)]
    assert partition.end_offset == 7


@pytest.mark.parametrize("committed", [True, False])
def test_end_of_a_transaction_adds_a_marker(*, committed: bool) -> None:
    recording = Recording()
    add_produce(recording, batch("x", producer=PRODUCER, is_transactional=True), 0)
    add_produce(recording, batch("plain"), 1)
    add_end_txn(recording, committed=committed)

    partition = partition_of(recording)

    assert offset_ranges(partition) == [(0, 0), (1, 1), (2, 2)]
    marker = partition.batches[-1].control_marker()
    assert marker is not None
    assert marker.kind is (ControlKind.COMMIT if committed else ControlKind.ABORT)
    aborted, opened = partition.transactions()
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in aborted] == (
        [] if committed else [(77, 0, 2)]
    )
    assert opened == {}


def test_transaction_without_recorded_end_is_open() -> None:
    recording = Recording()
    add_produce(recording, batch("x", producer=PRODUCER, is_transactional=True), 4)

    _, opened = partition_of(recording).transactions()

    assert [each.base_offset for each in opened.values()] == [4]


def test_topics_have_ids_and_partition_counts() -> None:
    recording = Recording()
    partitions = [
        MetadataResponse.MetadataResponsePartition(partition_index=index) for index in range(3)
    ]
    recording.add(
        MetadataRequest(topics=None),
        MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=4, host="h", port=1)],
            topics=[
                MetadataResponse.MetadataResponseTopic(
                    name="t", topic_id=TOPIC_ID, partitions=partitions
                ),
                MetadataResponse.MetadataResponseTopic(name="gone", error_code=3),
                MetadataResponse.MetadataResponseTopic(
                    name="__consumer_offsets", is_internal=True, partitions=partitions
                ),
            ],
        ),
        12,
    )

    recorded_cluster = RecordedCluster.from_exchanges(recording.exchanges)

    assert recorded_cluster.partition_counts == {"t": 3, "__consumer_offsets": 3}
    assert recorded_cluster.topic_names == {TOPIC_ID: "t"}
    assert recorded_cluster.internal_topics == {"__consumer_offsets"}
    assert recorded_cluster.node_ids == {4}


def commit_of(offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata="m"
                    )
                ],
            )
        ],
    )


def commit_answer(error: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=0, error_code=error
                    )
                ],
            )
        ]
    )


def test_last_accepted_commit_is_stored() -> None:
    recording = Recording()
    recording.add(
        OffsetFetchRequest(group_id="g", topics=None),
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponse.OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponse.OffsetFetchResponsePartition(
                            partition_index=0, committed_offset=1
                        )
                    ],
                )
            ]
        ),
        6,
    )
    recording.add(commit_of(5), commit_answer(0), 8)
    recording.add(commit_of(9), commit_answer(22), 8)

    recorded_cluster = RecordedCluster.from_exchanges(recording.exchanges)

    assert recorded_cluster.committed_offsets["g"] == {
        PartitionId("t", 0): CommittedOffset(5, -1, "m")
    }


@pytest.mark.parametrize("committed", [True, False])
def test_transactional_commits_are_stored_with_the_commit_of_the_transaction(
    *, committed: bool
) -> None:
    recording = Recording()
    recording.add(
        TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=77,
            producer_epoch=3,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=6
                        )
                    ],
                )
            ],
        ),
        TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=0)
                    ],
                )
            ]
        ),
        3,
    )
    add_end_txn(recording, committed=committed)

    recorded_cluster = RecordedCluster.from_exchanges(recording.exchanges)

    expected = {PartitionId("t", 0): CommittedOffset(6, -1, "")} if committed else {}
    assert recorded_cluster.committed_offsets["g"] == expected


def test_read_starts_with_the_batch_that_has_the_offset() -> None:
    recording = Recording()
    for offset in (0, 2, 4):
        add_produce(recording, batch("x", "y"), offset)
    partition = partition_of(recording)
    size = partition.batches[0].size

    assert [each.base_offset for each in partition.read(3, 2 * size)] == [2, 4]
    assert [each.base_offset for each in partition.read(3, 1)] == [2]
    assert partition.read(6, size) == []


def test_malformed_records_are_ignored() -> None:
    recording = Recording()
    add_produce(recording, batch("x")[:-1] + b"", 0)
    add_produce(recording, b"\xff" * 80, 3)

    assert all(isinstance(batch, BatchView) for batch in partition_of(recording).batches)
    assert offset_ranges(partition_of(recording)) == []


@pytest.mark.parametrize("index", [-1, 100_000, 2**31 - 1])
def test_impossible_partition_index_is_ignored(index: int) -> None:
    recording = Recording()
    recording.add(
        OffsetFetchRequest(group_id="g", topics=None),
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponse.OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponse.OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=1
                        )
                    ],
                )
            ]
        ),
        6,
    )
    recorded_cluster = RecordedCluster.from_exchanges(recording.exchanges)
    assert not recorded_cluster.partition_counts
    assert not recorded_cluster.committed_offsets["g"]
