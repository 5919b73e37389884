"""Records are sent by partition, and a refused record is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import ProducedBatch, Producer
from kafkalite.client.record_sender import (
    NumberedRecord,
    RecordRefusedError,
    RecordSender,
    SentRecord,
)
from kafkalite.client.records import ProducerRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.key_partition import partition_of_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.client.epochs import TopicPartition


class Log:
    """A producer whose broker refuses batches with more than `limit` bytes of values."""

    def __init__(self, limit: int = 10**9) -> None:
        self.limit = limit
        self.batches: list[tuple[int, list[bytes | None]]] = []
        self.code = ErrorCode.MESSAGE_TOO_LARGE

    async def send_batch(
        self, partition: TopicPartition, records: Sequence[ProducerRecord]
    ) -> ProducedBatch:
        if sum(len(each.value or b"") for each in records) > self.limit:
            raise BrokerError(self.code, "refused")
        start = sum(len(values) for index, values in self.batches if index == partition.partition)
        self.batches.append((partition.partition, [each.value for each in records]))
        return ProducedBatch(partition, start, start + len(records) - 1)


def sender(log: Log, partitions: int = 2) -> RecordSender:
    return RecordSender(cast("Producer", log), "orders", partitions)


def numbered(*values: bytes, partition: int | None = None) -> list[NumberedRecord]:
    return [
        NumberedRecord(number, ProducerRecord(value), partition)
        for number, value in enumerate(values, 1)
    ]


async def test_records_without_a_key_are_sent_in_turns() -> None:
    log = Log()
    sending = sender(log)
    assert await sending.send(numbered(b"a", b"b", b"c")) == [
        SentRecord(1, 0, 0),
        SentRecord(2, 1, 0),
        SentRecord(3, 0, 1),
    ]
    await sending.send(numbered(b"d"))
    assert log.batches == [(0, [b"a", b"c"]), (1, [b"b"]), (1, [b"d"])]


async def test_key_or_a_given_partition_selects_the_partition() -> None:
    log = Log()
    keyed = NumberedRecord(1, ProducerRecord(b"a", b"key"))
    await sender(log, 7).send([keyed, keyed._replace(number=2, partition=6)])
    assert [index for index, _ in log.batches] == [partition_of_key(b"key", 7), 6]
    with pytest.raises(RecordRefusedError, match="line 1: topic 'orders' has no partition 7"):
        await sender(log, 7).send(numbered(b"a", partition=7))


async def test_size_of_a_batch_is_limited() -> None:
    log = Log()
    large = b"x" * 300_000
    await sender(log, 1).send(numbered(large, large, b"a", large * 3, b"b"))
    assert [len(values) for _, values in log.batches] == [1, 2, 1, 1]


async def test_only_a_record_that_is_too_large_alone_is_refused() -> None:
    log = Log(limit=2)
    with pytest.raises(RecordRefusedError, match=r"line 4: the record of 3 bytes is too large"):
        await sender(log, 1).send(numbered(b"a", b"b", b"c", b"ddd", b"e"))
    assert log.batches == [(0, [b"a", b"b"]), (0, [b"c"])]


async def test_records_after_a_reported_refusal_are_sent() -> None:
    log, reasons = Log(limit=2), list[str]()
    sending = RecordSender(cast("Producer", log), "orders", 1, on_refusal=reasons.append)
    sent = await sending.send(numbered(b"a", b"b", b"ccc", b"d"))
    assert [each.number for each in sent] == [1, 2, 4]
    (reason,) = reasons
    assert reason.startswith("line 3: the record of 3 bytes is too large")
    log.limit, log.code = 0, ErrorCode.INVALID_RECORD
    assert await sending.send(numbered(b"e")) == []
    assert reasons[1:] == [ErrorCode.INVALID_RECORD.message]


async def test_other_errors_are_those_of_the_broker() -> None:
    log = Log(limit=0)
    log.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        await sender(log).send(numbered(b"a"))


@pytest.mark.parametrize("key", [None, b"key"])
async def test_a_topic_without_partitions_is_named(key: bytes | None) -> None:
    """A broker describes a topic without partitions while the topic is being created."""
    unsent = NumberedRecord(1, ProducerRecord(b"a", key))
    with pytest.raises(RecordRefusedError, match="line 1: topic 'orders' has no partition yet"):
        await sender(Log(), 0).send([unsent])
