"""Fetch requests have the epochs of positions; answers are classified by code and epochs."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster_metadata import PartitionMetadata
from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.fetches import (
    EpochEnd,
    FetchAnswer,
    FetchedPosition,
    FetchLimits,
    Meaning,
    Reason,
    divergent_offset,
    epoch_end_request,
    fetch_answers,
    fetch_request,
    has_other_partition_epoch,
    is_truncated,
    list_offsets_request,
    meaning_of,
    reason_in_metadata,
)
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


# --- the reasons for OFFSET_OUT_OF_RANGE ----------------------------------------------------------

CONSUMED = OffsetAndEpochs(20, leader_epoch=5, partition_epoch=3)
USED = PartitionMetadata(1, leader_epoch=5, partition_epoch=3)


@pytest.mark.parametrize(
    ("known", "fetched", "is_other"),
    [(3, 3, False), (3, 4, True), (3, 2, True), (-1, 4, False), (3, -1, False), (-1, -1, False)],
)
def test_an_offset_belongs_to_the_partition_with_its_partition_epoch(
    known: int,
    fetched: int,
    is_other: bool,  # noqa: FBT001 - a column of the table
) -> None:
    position = OffsetAndEpochs(20, 5, known)
    assert has_other_partition_epoch(position, fetched) is is_other


@pytest.mark.parametrize(
    ("newest", "reason"),
    [
        (USED, Reason.UNKNOWN),
        (PartitionMetadata(2, 6, 3), Reason.STALE_LEADER),
        (PartitionMetadata(2, 0, 4), Reason.NEW_PARTITION),
        (None, Reason.STALE_LEADER),
    ],
)
def test_the_newest_metadata_shows_the_reason(
    newest: PartitionMetadata | None, reason: Reason
) -> None:
    assert reason_in_metadata(CONSUMED, USED, newest) is reason


def test_metadata_with_another_topic_id_is_used_before_a_position_is_out_of_range() -> None:
    """Without partition epochs, the leader epochs of both topics are not comparable."""
    former, present = PartitionMetadata(1, 5, topic_id=ID), PartitionMetadata(1, 0)
    position = OffsetAndEpochs(20, 5)
    assert reason_in_metadata(position, former, present) is Reason.STALE_LEADER


def test_a_position_without_epochs_is_invalid_only_by_its_log() -> None:
    """Without a partition epoch, a new topic is a reason to ask its leader again."""
    position = OffsetAndEpochs(20)
    assert reason_in_metadata(position, USED, PartitionMetadata(2, 0, 4)) is Reason.STALE_LEADER
    assert reason_in_metadata(position, USED, USED) is Reason.UNKNOWN


@pytest.mark.parametrize(
    ("end", "truncated", "offset"),
    [
        (EpochEnd(5, 19), True, OffsetAndEpochs(19, 5, 3)),
        (EpochEnd(4, 10), True, OffsetAndEpochs(10, 4, 3)),
        (EpochEnd(-1, -1), True, None),  # the log has no such leader epoch
        (EpochEnd(5, 20), False, None),
        (EpochEnd(5, 21), False, None),
    ],
)
def test_a_log_that_ends_before_the_position_in_its_epoch_was_truncated(
    end: EpochEnd,
    truncated: bool,  # noqa: FBT001 - a column of the table
    offset: OffsetAndEpochs | None,
) -> None:
    assert is_truncated(CONSUMED, end) is truncated
    if truncated:
        assert divergent_offset(CONSUMED, end) == offset
