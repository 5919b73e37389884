"""Fetches from a log with a batch whose length was changed on disk."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

ATTEMPTS = count()
"""Numbers in topic names: a test that is run again must create other topics."""

BATCHES = 10
DAMAGED = 3
OFFSETS = range(DAMAGED + 1)
ALL, ONE_BATCH = 1 << 20, 10
"""Maximum bytes of a fetch: enough for all batches, or for one."""


def create(client: RawClient, topic: str) -> None:
    topic_row = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=1, replication_factor=1
    )
    answer = client.call(CreateTopicsRequest(topics=[topic_row], timeout_ms=10_000), 5)
    assert answer.topics[0].error_code == ErrorCode.NONE


def produce(client: RawClient, topic: str) -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=Batch().encode())
    topic_row = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic_row]), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def fetch(client: RawClient, topic: str, offset: int, max_bytes: int) -> tuple[ErrorCode, bool]:
    """Return the error and whether there are records."""
    partition = FetchRequest.FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 25,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    (response,) = client.call(request, 12).responses[0].partitions
    return ErrorCode(response.error_code), bool(response.records)


def fetch_damaged(
    target: Target, topic: str, length: int
) -> dict[int, list[tuple[ErrorCode, bool]]]:
    """Damage the length of a batch; return the results of fetches from each offset up to it."""
    client = RawClient(target.port)
    try:
        create(client, topic)
        for _ in range(BATCHES):
            produce(client, topic)
        path = target.data / f"{topic}-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        at = DAMAGED * len(data) // BATCHES + 8
        data[at : at + 4] = length.to_bytes(4, "big", signed=True)
        path.write_bytes(data)
        return {
            offset: [fetch(client, topic, offset, most) for most in (ALL, ONE_BATCH)]
            for offset in OFFSETS
        }
    finally:
        client.close()


@pytest.mark.parametrize("length", [-7, 0, 5])
def test_an_invalid_batch_length_is_a_corrupt_message(
    real_kafka: Target, emulator: Target, length: int
) -> None:
    topic = f"damaged-length-{length + 10}-{next(ATTEMPTS)}"
    response = fetch_damaged(emulator, topic, length)
    assert response == fetch_damaged(real_kafka, topic, length)
    assert response[DAMAGED] == [(ErrorCode.CORRUPT_MESSAGE, False)] * 2


def test_a_length_beyond_the_end_is_a_corrupt_message(real_kafka: Target, emulator: Target) -> None:
    """Kafka finds no batch there and always answers with an empty response."""
    topic, length = f"damaged-length-beyond-{next(ATTEMPTS)}", 2**31 - 1
    kafka, response = (
        fetch_damaged(real_kafka, topic, length),
        fetch_damaged(emulator, topic, length),
    )
    assert kafka.pop(DAMAGED) == [(ErrorCode.NONE, False)] * 2
    assert response.pop(DAMAGED) == [(ErrorCode.CORRUPT_MESSAGE, False)] * 2
    assert response == kafka
