"""Fetch and ListOffsets requests of a consumer, and the meaning of their answers; without I/O.

OFFSET_OUT_OF_RANGE alone does not say whether an offset is wrong. The broker may be a former leader
with a shorter log, the log may have been truncated, the topic may have been created again, or
retention may have deleted the records. Only the last reason justifies a reset of the offset.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.epochs import NO_EPOCH, OffsetAndEpochs, TopicPartition
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.cluster_metadata import PartitionMetadata

FETCH_VERSIONS: Final = Versions(4, 18)
"""Versions with batches; from 12 on, a broker compares the leader epoch of the position."""
LIST_OFFSETS_VERSIONS: Final = Versions(1, 11)
EPOCH_END_VERSIONS: Final = Versions(1, 4)
"""Versions whose response has a leader epoch."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Isolation levels as numbers."""
_CONSUMER: Final = -1


class FetchLimits(NamedTuple):
    """Limits of a Fetch request; the defaults are Kafka's."""

    max_wait_ms: int = 500
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


class EpochEnd(NamedTuple):
    """The largest leader epoch of a log up to a requested one, and its end; -1 if unknown."""

    leader_epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, and the offset of its first record."""

    producer_id: int
    first_offset: int


class FetchAnswer(NamedTuple):
    """The answer for one partition."""

    code: ErrorCode
    partition_epoch: int
    records: bytes
    diverging: EpochEnd | None
    """The end of the leader epoch of the position, if the log ends before the position."""
    aborted: Sequence[AbortedTransaction] = ()
    """The aborted transactions with records in the answer, if only committed ones are fetched."""


class Meaning(Enum):
    """The meaning of an answer for the position that was fetched."""

    RECORDS = "records, or none yet"
    RETRY = "refresh the metadata and retry"
    NEW_PARTITION = "the topic was deleted and created again"
    OUT_OF_RANGE = "the broker does not have the offset"
    DIVERGING = "the log was truncated below the offset"
    FAILED = "a retry would not help"


def meaning_of(answer: FetchAnswer, position: OffsetAndEpochs) -> Meaning:
    """Return the meaning of an answer for a position."""
    if answer.code is ErrorCode.INVALID_PARTITION_EPOCH or has_other_partition_epoch(
        position, answer.partition_epoch
    ):
        return Meaning.NEW_PARTITION
    if answer.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return Meaning.OUT_OF_RANGE
    if answer.code:
        return Meaning.RETRY if answer.code.retriable else Meaning.FAILED
    return Meaning.RECORDS if answer.diverging is None else Meaning.DIVERGING


class FetchedPosition(NamedTuple):
    """A position to fetch from, and the metadata that was used to find the leader."""

    position: OffsetAndEpochs
    metadata: PartitionMetadata


def fetch_request(
    fetched: Mapping[TopicPartition, FetchedPosition],
    limits: FetchLimits,
    max_wait_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> FetchRequest:
    """Return a request without a fetch session."""
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for (topic, index), (position, metadata) in fetched.items():
        row = FetchRequest.FetchPartition(
            partition=index,
            current_leader_epoch=metadata.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.leader_epoch,
            partition_max_bytes=limits.partition_max_bytes,
        )
        if topic not in topics:
            # The version of the request selects the name or the id.
            topics[topic] = FetchRequest.FetchTopic(topic=topic, topic_id=metadata.topic_id)
        topics[topic].partitions.append(row)
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=limits.max_bytes,
        isolation_level=isolation_level,
        topics=list(topics.values()),
    )


def fetch_answers(
    response: Any,  # noqa: ANN401 - a FetchResponse
    fetched: Mapping[TopicPartition, FetchedPosition],
) -> Iterator[tuple[TopicPartition, FetchAnswer]]:
    """Yield the answers by partition; an error of the whole request is yielded for each."""
    if response.error_code:
        for partition in fetched:
            yield partition, FetchAnswer(ErrorCode(response.error_code), -1, b"", None)
        return
    names = {metadata.topic_id: topic for (topic, _), (_, metadata) in fetched.items()}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for row in topic.partitions:
            partition = TopicPartition(name, row.partition_index)
            if partition in fetched:
                end = row.diverging_epoch
                answer = FetchAnswer(
                    ErrorCode(row.error_code),
                    row.incarnation_epoch,
                    bytes(row.records or b""),
                    None if end is None else EpochEnd(end.epoch, end.end_offset),
                    tuple(
                        AbortedTransaction(each.producer_id, each.first_offset)
                        for each in row.aborted_transactions or ()
                    ),
                )
                yield partition, answer


def list_offsets_request(
    partition: TopicPartition,
    metadata: PartitionMetadata,
    timestamp: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """Return a request for the first offset of a partition (-2) or the last (-1)."""
    row = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=partition.partition,
        current_leader_epoch=metadata.leader_epoch,
        timestamp=timestamp,
    )
    topic = ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[row])
    return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=isolation_level, topics=[topic])


def epoch_end_request(
    partition: TopicPartition, metadata: PartitionMetadata, leader_epoch: int
) -> OffsetForLeaderEpochRequest:
    """Return a request for the end of a leader epoch."""
    row = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=partition.partition,
        current_leader_epoch=metadata.leader_epoch,
        leader_epoch=leader_epoch,
    )
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=partition.topic, partitions=[row]
    )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=[topic])


class Reason(Enum):
    """A reason for OFFSET_OUT_OF_RANGE that the metadata shows."""

    STALE_LEADER = "the broker is not the leader any more"
    NEW_PARTITION = "the topic was deleted and created again"
    UNKNOWN = "the metadata shows no reason"


def has_other_partition_epoch(position: OffsetAndEpochs, partition_epoch: int) -> bool:
    """Return whether an offset belongs to another partition than that with this partition epoch.

    Returns False if one of the partition epochs is unknown.
    """
    return (
        NO_EPOCH not in (position.partition_epoch, partition_epoch)
        and position.partition_epoch != partition_epoch
    )


def reason_in_metadata(
    position: OffsetAndEpochs, used: PartitionMetadata, newest: PartitionMetadata | None
) -> Reason:
    """Return why the leader in the metadata `used` may have refused a position.

    `newest` is the newest metadata of all brokers; None if the partition is gone.
    """
    if newest is None:
        return Reason.STALE_LEADER
    if has_other_partition_epoch(position, newest.partition_epoch):
        return Reason.NEW_PARTITION
    if used.topic_id != newest.topic_id or used.is_older_than(newest):
        return Reason.STALE_LEADER
    return Reason.UNKNOWN


def is_truncated(position: OffsetAndEpochs, end: EpochEnd) -> bool:
    """Return whether the log lost records below a position; `end` is the end of its leader epoch.

    Returns True as well if the log does not have any records up to that epoch.
    """
    return NO_EPOCH in end or end.end_offset < position.offset


def divergent_offset(position: OffsetAndEpochs, end: EpochEnd) -> OffsetAndEpochs | None:
    """Return the first offset of a truncated log that differs; None if it is unknown."""
    if NO_EPOCH in end:
        return None
    return OffsetAndEpochs(end.end_offset, end.leader_epoch, position.partition_epoch)
