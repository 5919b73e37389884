"""Fetch requests have the epochs of positions; answers are classified by code and epochs."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster_metadata import PartitionMetadata
from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.fetches import (
    FetchAnswer,
    FetchedPosition,
    FetchLimits,
    Meaning,
    epoch_end_request,
    fetch_answers,
    fetch_request,
    list_offsets_request,
    meaning_of,
)
from kafkalite.client.out_of_range import EpochEnd
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import ORDERS

ID = b"a" * 16
KNOWN = PartitionMetadata(1, 5, 3, ID)
POSITION = OffsetAndEpochs(20, 4, 3)
FETCHED = {ORDERS: FetchedPosition(POSITION, KNOWN)}
NONE = ErrorCode.NONE


def answer(
    code: ErrorCode = NONE, partition_epoch: int = 3, diverging: EpochEnd | None = None
) -> FetchAnswer:
    return FetchAnswer(code, partition_epoch, b"", diverging)


@pytest.mark.parametrize(
    ("one", "meaning"),
    [
        (answer(), Meaning.RECORDS),
        (answer(partition_epoch=-1), Meaning.RECORDS),
        (answer(partition_epoch=4), Meaning.NEW_PARTITION),
        (answer(ErrorCode.OFFSET_OUT_OF_RANGE, 4), Meaning.NEW_PARTITION),
        (answer(ErrorCode.INVALID_PARTITION_EPOCH, -1), Meaning.NEW_PARTITION),
        (answer(ErrorCode.OFFSET_OUT_OF_RANGE), Meaning.OUT_OF_RANGE),
        (answer(diverging=EpochEnd(4, 10)), Meaning.DIVERGING),
        (answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), Meaning.RETRY),
        (answer(ErrorCode.FENCED_LEADER_EPOCH), Meaning.RETRY),
        (answer(ErrorCode.UNKNOWN_LEADER_EPOCH), Meaning.RETRY),
        (answer(ErrorCode.UNKNOWN_TOPIC_ID, -1), Meaning.RETRY),
        (answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED), Meaning.FAILED),
    ],
)
def test_an_answer_has_one_meaning(one: FetchAnswer, meaning: Meaning) -> None:
    assert meaning_of(one, POSITION) is meaning


def test_a_fetch_request_has_the_epochs_of_leader_and_position() -> None:
    other = TopicPartition("orders", 1)
    fetched = {**FETCHED, other: FetchedPosition(OffsetAndEpochs(0), KNOWN)}
    request = fetch_request(fetched, FetchLimits(500, 2_000, 1_000), max_wait_ms=100)
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == ("orders", ID)
    first, second = topic.partitions
    assert (first.partition, first.fetch_offset) == (0, 20)
    assert (first.current_leader_epoch, first.last_fetched_epoch) == (5, 4)
    assert (second.partition, second.last_fetched_epoch) == (1, -1)
    assert (request.max_wait_ms, request.max_bytes, first.partition_max_bytes) == (100, 2000, 1000)
    assert (request.session_id, request.session_epoch, request.replica_id) == (0, -1, -1)


@pytest.mark.parametrize("name", ["orders", ""])
def test_answers_are_found_by_the_name_or_the_id_of_the_topic(name: str) -> None:
    rows = [
        FetchResponse.PartitionData(
            partition_index=0,
            records=b"bytes",
            incarnation_epoch=3,
            diverging_epoch=FetchResponse.EpochEndOffset(epoch=4, end_offset=10),
        ),
        FetchResponse.PartitionData(partition_index=1),  # not requested
    ]
    topic = FetchResponse.FetchableTopicResponse(
        topic=name, topic_id=bytes(16) if name else ID, partitions=rows
    )
    answers = list(fetch_answers(FetchResponse(responses=[topic]), FETCHED))
    assert answers == [(ORDERS, FetchAnswer(NONE, 3, b"bytes", EpochEnd(4, 10)))]


def test_an_error_of_the_request_is_that_of_all_partitions() -> None:
    response = FetchResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert list(fetch_answers(response, FETCHED)) == [
        (ORDERS, FetchAnswer(ErrorCode.KAFKA_STORAGE_ERROR, -1, b"", None))
    ]


def test_requests_for_offsets_have_the_epoch_of_the_leader() -> None:
    offsets = list_offsets_request(ORDERS, KNOWN, -2).topics[0].partitions[0]
    assert (offsets.partition_index, offsets.timestamp, offsets.current_leader_epoch) == (0, -2, 5)
    end = epoch_end_request(ORDERS, KNOWN, 4).topics[0].partitions[0]
    assert (end.partition, end.leader_epoch, end.current_leader_epoch) == (0, 4, 5)
