"""What a capture tells of the cluster behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkalite.replay.library import Commit, Library, PartitionId
from kafkalite.storage.batch import BatchView, ControlKind, Producer
from tests.unit.replay.recorded import Recording, batch

if TYPE_CHECKING:
    from kafkalite.replay.library import Shelf

TOPIC_ID = bytes(range(16))
PRODUCER = Producer(77, 3, 0)


def produced(
    recording: Recording, records: bytes, base_offset: int, *, error: int = 0, topic: str = "t"
) -> None:
    recording.say(
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


def fetched(recording: Recording, records: bytes, *, high_watermark: int) -> None:
    recording.say(
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


def ended(recording: Recording, *, committed: bool) -> None:
    recording.say(
        EndTxnRequest(transactional_id="tx", producer_id=77, producer_epoch=3, committed=committed),
        EndTxnResponse(),
        3,
    )


def shelf_of(recording: Recording) -> Shelf:
    return Library.of(recording.exchanges).shelves[PartitionId("t", 0)]


def spans(shelf: Shelf) -> list[tuple[int, int]]:
    return [(each.base_offset, each.last_offset) for each in shelf.batches]


def test_records_lie_where_producers_were_told() -> None:
    recording = Recording()
    produced(recording, batch("c", "d"), 2)
    produced(recording, batch("a", "b"), 0)
    produced(recording, batch("refused"), 9, error=87)

    shelf = shelf_of(recording)

    assert spans(shelf) == [(0, 1), (2, 3)]
    assert shelf.end_offset == 4
    assert [value for each in shelf.batches for _, value in each.key_values()] == [
        b"a", b"b", b"c", b"d",
    ]  # fmt: skip
    assert all(each.has_valid_crc() for each in shelf.batches)


def test_what_a_reader_was_shown_outweighs_what_was_sent() -> None:
    recording = Recording()
    produced(recording, batch("a"), 0)
    produced(recording, batch("b"), 1)
    fetched(recording, batch("A", "B", offset=0), high_watermark=7)
    produced(recording, batch("late"), 1)

    shelf = shelf_of(recording)

    assert spans(shelf) == [(0, 1)]
    assert shelf.end_offset == 7


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction_is_a_marker_behind_it(*, committed: bool) -> None:
    recording = Recording()
    produced(recording, batch("x", producer=PRODUCER, is_transactional=True), 0)
    produced(recording, batch("plain"), 1)
    ended(recording, committed=committed)

    shelf = shelf_of(recording)

    assert spans(shelf) == [(0, 0), (1, 1), (2, 2)]
    marker = shelf.batches[-1].control_marker()
    assert marker is not None
    assert marker.kind is (ControlKind.COMMIT if committed else ControlKind.ABORT)
    aborted, opened = shelf.transactions()
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in aborted] == (
        [] if committed else [(77, 0, 2)]
    )
    assert opened == {}


def test_a_transaction_whose_end_was_not_seen_is_open() -> None:
    recording = Recording()
    produced(recording, batch("x", producer=PRODUCER, is_transactional=True), 4)

    _, opened = shelf_of(recording).transactions()

    assert [each.base_offset for each in opened.values()] == [4]


def test_topics_are_known_with_their_ids_and_partitions() -> None:
    recording = Recording()
    partitions = [
        MetadataResponse.MetadataResponsePartition(partition_index=index) for index in range(3)
    ]
    recording.say(
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

    library = Library.of(recording.exchanges)

    assert library.partitions == {"t": 3, "__consumer_offsets": 3}
    assert library.names == {TOPIC_ID: "t"}
    assert library.internal == {"__consumer_offsets"}
    assert library.nodes == {4}


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


def test_the_last_commit_that_was_accepted_counts() -> None:
    recording = Recording()
    recording.say(
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
    recording.say(commit_of(5), commit_answer(0), 8)
    recording.say(commit_of(9), commit_answer(22), 8)

    library = Library.of(recording.exchanges)

    assert library.commits["g"] == {PartitionId("t", 0): Commit(5, -1, "m")}


@pytest.mark.parametrize("committed", [True, False])
def test_commits_in_a_transaction_count_when_it_is_committed(*, committed: bool) -> None:
    recording = Recording()
    recording.say(
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
    ended(recording, committed=committed)

    library = Library.of(recording.exchanges)

    expected = {PartitionId("t", 0): Commit(6, -1, "")} if committed else {}
    assert library.commits["g"] == expected


def test_a_shelf_is_read_from_the_batch_that_holds_an_offset() -> None:
    recording = Recording()
    for offset in (0, 2, 4):
        produced(recording, batch("x", "y"), offset)
    shelf = shelf_of(recording)
    size = shelf.batches[0].size

    assert [each.base_offset for each in shelf.read(3, 2 * size)] == [2, 4]
    assert [each.base_offset for each in shelf.read(3, 1)] == [2]
    assert shelf.read(6, size) == []


def test_what_is_malformed_tells_nothing() -> None:
    recording = Recording()
    produced(recording, batch("x")[:-1] + b"", 0)
    produced(recording, b"\xff" * 80, 3)

    assert all(isinstance(each, BatchView) for each in shelf_of(recording).batches)
    assert spans(shelf_of(recording)) == []


@pytest.mark.parametrize("index", [-1, 100_000, 2**31 - 1])
def test_partitions_that_no_cluster_has_are_not_made(index: int) -> None:
    recording = Recording()
    recording.say(
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
    library = Library.of(recording.exchanges)
    assert not library.partitions
    assert not library.commits["g"]
