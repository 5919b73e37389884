"""Records of topics, read from and written to the logs of their leaders."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.control.command_table import CommandError, running_cluster, sentence
from kafkalite.control.internal_requests import answer_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.key_partition import partition_of_key
from kafkalite.storage.batch import build_batch, split_batches
from kafkalite.storage.record_format import MalformedRecordsError, NewRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.metadata.image import TopicImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.server.broker import Broker
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.record_format import Headers

Isolation = Literal["read_uncommitted", "read_committed"]

_READ_BYTES: Final = 256 * 1024
_RECORDS_PER_TURN: Final = 500
_ACKS_LEADER: Final = 1
_TIMEOUT_MS: Final = 30_000


class UnknownTopicError(CommandError):
    """There is no topic with this name."""


class TopicRecord(NamedTuple):
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer_id: int
    """-1 for a producer without idempotence."""
    producer_epoch: int
    is_transactional: bool
    is_aborted: bool
    """Whether the transaction of the record was aborted."""


class ProducedOffset(NamedTuple):
    """The position of a record that was written."""

    partition: int
    offset: int


def topic_of(cluster: Cluster, name: str) -> TopicImage:
    """Return a topic; raises UnknownTopicError with similar names."""
    topics = cluster.metadata.image.topics
    if name in topics:
        return topics[name]
    hint = similar_names_hint(name, topics)
    raise UnknownTopicError(f"there is no topic {name[:249]!r}{hint}")


async def produce(
    broker: Broker, topic: str, records: Sequence[NewRecord], partition: int | None = None
) -> list[ProducedOffset]:
    """Append records to a topic, and return their positions in the order of the records.

    Without `partition`, a record has the partition that Java's producer selects for its key, and
    partition 0 without a key. Raises CommandError if the broker refuses a record; records of other
    partitions may have been written.
    """
    cluster = running_cluster(broker)
    image = topic_of(cluster, topic)
    count = len(image.partitions)
    if partition is not None and not 0 <= partition < count:
        raise CommandError(no_partition_text(topic, partition, count))
    by_partition: dict[int, list[int]] = {}
    for position, record in enumerate(records):
        index = partition
        if index is None:
            index = 0 if record.key is None else partition_of_key(record.key, count)
        by_partition.setdefault(index, []).append(position)
    offsets: dict[int, ProducedOffset] = {}
    for index, positions in by_partition.items():
        batch = build_batch([records[position] for position in positions])
        first = await _append(broker, cluster, topic, index, batch)
        for number, position in enumerate(positions):
            offsets[position] = ProducedOffset(index, first + number)
    return [offsets[position] for position in range(len(records))]


async def _append(broker: Broker, cluster: Cluster, topic: str, index: int, batch: bytes) -> int:
    """Append a batch to a partition, and return the offset of its first record."""
    image = cluster.metadata.image.topics[topic]
    node = cluster.nodes.get(image.partitions[index].leader)
    if node is None:
        raise CommandError(f"{topic}-{index} has no leader")
    data = ProduceRequest.PartitionProduceData(index=index, records=memoryview(batch))
    request = ProduceRequest(
        acks=_ACKS_LEADER,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic, topic_id=image.topic_id, partition_data=[data]
            )
        ],
    )
    answer = await answer_of(broker, request, node)
    row = answer.responses[0].partition_responses[0]
    if row.error_code:
        error = KafkaError(ErrorCode(row.error_code), row.error_message)
        raise CommandError(f"{topic}-{index}: {sentence(error)}")
    return int(row.base_offset)


async def read(
    broker: Broker,
    topic: str,
    *,
    partition: int | None = None,
    start: int = 0,
    isolation: Isolation = "read_committed",
) -> AsyncIterator[TopicRecord]:
    """Yield the records of a topic, partition by partition, from the offset `start` on.

    With "read_uncommitted", it yields records of open and aborted transactions as well. Control
    records are omitted. Other tasks run between the batches. Raises CommandError.
    """
    cluster = running_cluster(broker)
    count = len(topic_of(cluster, topic).partitions)
    if partition is not None and not 0 <= partition < count:
        raise CommandError(no_partition_text(topic, partition, count))
    for index in range(count) if partition is None else (partition,):
        hosted = cluster.partitions.topic(topic)
        found = None if hosted is None else hosted.partition(index)
        if found is None:
            raise CommandError(f"{topic}-{index} is not available")
        async for record in _records(topic, index, found, start, isolation):
            yield record


async def _records(
    topic: str, index: int, partition: Partition, start: int, isolation: Isolation
) -> AsyncIterator[TopicRecord]:
    offset = max(start, partition.log_start_offset)
    is_committed = isolation == "read_committed"
    while True:
        limit = partition.limit_offset(committed=is_committed)
        if offset >= limit:
            return
        try:
            data = partition.read(
                offset, max_bytes=_READ_BYTES, limit_offset=limit, at_least_one=True
            )
        except (KafkaError, OSError) as error:
            raise CommandError(f"{topic}-{index} cannot be read: {error}") from error
        aborted = partition.aborted_in_read(offset, len(data))
        batches = split_batches(data)
        if not batches:
            return
        for batch in batches:
            await asyncio.sleep(0)
            aborts = is_aborted(batch, aborted)
            if not batch.is_control and not (is_committed and aborts):
                decoded = await _decoded(topic, index, batch, is_aborted=aborts)
                for number, record in enumerate(decoded):
                    if record.offset >= offset:
                        yield record
                    if number % _RECORDS_PER_TURN == _RECORDS_PER_TURN - 1:
                        await asyncio.sleep(0)
            offset = max(offset, batch.last_offset + 1)


def is_aborted(batch: BatchView, aborted: Sequence[AbortedTransaction]) -> bool:
    """Return whether a batch belongs to one of the aborted transactions of its log."""
    return batch.is_transactional and any(
        each.producer_id == batch.producer_id
        and each.first_offset <= batch.base_offset <= each.last_offset
        for each in aborted
    )


async def _decoded(
    topic: str, index: int, batch: BatchView, *, is_aborted: bool
) -> list[TopicRecord]:
    try:
        return await asyncio.to_thread(_decode, topic, index, batch, is_aborted=is_aborted)
    except MalformedRecordsError as error:
        offset = batch.base_offset
        raise CommandError(f"{topic}-{index}: the batch at offset {offset}: {error}") from error


def _decode(topic: str, index: int, batch: BatchView, *, is_aborted: bool) -> list[TopicRecord]:
    return [
        TopicRecord(
            topic,
            index,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            batch.producer_id,
            batch.producer_epoch,
            batch.is_transactional,
            is_aborted,
        )
        for record in batch.records()
    ]


def no_partition_text(topic: str, partition: int, count: int) -> str:
    """Return the text of an error about a partition that a topic does not have."""
    last = count - 1
    return f"topic {topic!r} has the partitions 0 to {last}, but not {partition}"
