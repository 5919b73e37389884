"""`kafka-replica-verification`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ProducerRecord, encode_batch
from kafkalite.docker.tools.replica_verification import Fetched, Verification
from kafkalite.storage.batch import split_batches

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

PARTITION = TopicPartition("orders", 0)


def fetched(*values: str, high_watermark: int = 9) -> dict[TopicPartition, Fetched]:
    """Return the answer of a replica with a batch for each value."""
    data = b"".join(
        number.to_bytes(8) + encode_batch([ProducerRecord(value.encode())], 0)[8:]
        for number, value in enumerate(values)
    )
    return {PARTITION: Fetched(high_watermark, split_batches(data))}


@pytest.fixture
def verification() -> Verification:
    client = KafkaClient(bootstrap_addresses("localhost:1"))
    found = Verification(client, [], {PARTITION: (1, 2)}, Namespace())
    found.offsets[PARTITION] = 0
    return found


def test_equal_replicas_are_compared_up_to_the_shorter_one(verification: Verification) -> None:
    assert verification.compare(PARTITION, {1: fetched("a", "b"), 2: fetched("a")}) == 8
    assert verification.offsets[PARTITION] == 1


def test_records_beyond_the_high_watermark_are_not_compared(verification: Verification) -> None:
    answers = {1: fetched("a", "b", high_watermark=1), 2: fetched("a", "c", high_watermark=1)}
    assert verification.compare(PARTITION, answers) == 0


def test_a_replica_that_cannot_be_reached_is_a_lag(verification: Verification) -> None:
    assert verification.compare(PARTITION, {1: fetched("a"), 2: {}}) == 9


def test_different_records_are_reported(
    verification: Verification, capsys: pytest.CaptureFixture[str]
) -> None:
    verification.compare(PARTITION, {1: fetched("a"), 2: fetched("b")})
    assert "partition orders-0 has unmatched checksum at offset 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", 'Missing required argument "[broker-list]"'),
        ("--broker-list a:1 --topics-include (", "( is an invalid regex"),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run("kafka-replica-verification", *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)
