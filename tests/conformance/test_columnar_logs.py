"""Data directories by the column, a real Kafka's and ours, hold what the scalar reading finds.

And that is what clients wrote: records of every codec, of transactions, with headers; and what
groups of both protocols and transactions left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.columnar.coordinator_records import LOGS
from kafkalite.columnar.logs import (
    PROBLEMS,
    RECORDS,
    LogOptions,
    Segment,
    find_segments,
    read_segment,
)
from kafkalite.columnar.plan import plain
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol.codecs.index import RECORD_TYPES
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec
from kafkalite.storage.recovery import believable_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.primitives import KafkaStruct
    from kafkalite.storage.batch import BatchView
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "columnar-logs"
Rows = dict[str, list[dict[str, object]]]
Config = dict[str, str | int | float | bool]
Headers = list[tuple[str, str | bytes | None]]


def write(target: Target) -> None:
    """Write records as clients do, and commit offsets by both protocols and in a transaction."""
    servers: Config = {"bootstrap.servers": target.bootstrap}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(timeout=20)
    for compression in CODECS:
        producer = Producer({**servers, "compression.type": compression, "linger.ms": 20})
        for number in range(40):
            key = None if number % 5 == 0 else f"{compression} {number}".encode()
            headers: Headers = [("from", compression), ("empty", None)]
            value = None if number % 7 == 0 else b"value " * number
            producer.produce(TOPIC, value, key, partition=number % 2, headers=headers[number % 3 :])
        assert producer.flush(20) == 0
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                **servers,
                "group.id": f"columnar {protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([TOPIC])
        assert consumer.consume(5, timeout=20)
        consumer.commit(asynchronous=False)
        if protocol == "classic":
            transact(servers, consumer)
        consumer.close()


def transact(servers: Config, consumer: Consumer) -> None:
    producer = Producer({**servers, "transactional.id": "columnar"})
    producer.init_transactions(20)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"in a transaction", partition=0)
        assert producer.flush(20) == 0  # an abort drops what was not sent
        there = [TopicPartition(TOPIC, 0, 3)]
        producer.send_offsets_to_transaction(there, consumer.consumer_group_metadata(), 20)
        ends(20)


def columnar(segments: list[Segment]) -> Rows:
    made: Rows = {}
    for segment in segments:
        with open(segment.path, "rb") as file:  # noqa: PTH123 - a path is text here
            for table, rows in read_segment(file, segment.path, LogOptions(with_control=True)):
                made.setdefault(table, []).extend(rows.to_pylist())
    return made


def batches(segment: Segment) -> Iterator[BatchView]:
    file = OsFiles().open(segment.path)
    for _, batch in believable_batches(file.pread, file.size, segment.base_offset):
        yield batch


def scalar_records(segments: list[Segment]) -> list[tuple[object, ...]]:
    return [
        (
            *(segment.topic, segment.partition, record.offset, record.timestamp),
            *(record.key, record.value, record.headers, batch.is_control, batch.producer_id),
        )
        for segment in segments
        for batch in batches(segment)
        for record in batch.records()
    ]


def as_tuple(row: dict[str, object]) -> tuple[object, ...]:
    at = row["timestamp"].timestamp()  # type: ignore[attr-defined]
    headers = tuple((each["key"], each["value"]) for each in row["headers"])  # type: ignore[attr-defined]
    return (
        *(row["topic"], row["partition"], row["offset"], round(at * 1000)),
        *(row["key"], row["value"], headers, row["is_control"], row["producer_id"]),
    )


def scalar_tables(segments: list[Segment]) -> dict[str, list[object]]:
    """Decode what coordinators wrote, record by record."""
    made: dict[str, list[object]] = {}
    for segment in segments:
        log = LOGS.get(segment.topic)
        if log is None:
            continue
        for batch in batches(segment):
            for record in () if batch.is_control else batch.records():
                assert record.key is not None
                number = int.from_bytes(record.key[:2], "big")
                table, key_name, value_name, version = RECORD_TYPES[log][number]
                key = plain(codec.decode_key(record.key, log), tree(key_name, version))
                value = None
                if record.value is not None:
                    spoken = int.from_bytes(record.value[:2], "big")
                    message = codec.decode_value(number, record.value, log)
                    value = plain(message, tree(value_name, spoken))
                made.setdefault(table, []).append((record.offset, key, value))
    return made


def tree(name: str, version: int) -> KafkaStruct:
    return message_tree(load_spec("records", name), version)


@pytest.mark.parametrize(
    "name", ["accused", pytest.param("real_kafka", marks=pytest.mark.endurance)]
)
def test_a_data_directory_is_what_the_scalar_reading_finds(
    name: str, request: pytest.FixtureRequest
) -> None:
    target: Target = request.getfixturevalue(name)
    write(target)
    # What Kafka keeps of its cluster has records in a frame of their own.
    segments = [
        each
        for each in find_segments(OsFiles(), str(target.data))
        if each.topic == TOPIC or each.topic in LOGS
    ]

    made = columnar(segments)

    assert made.get(PROBLEMS) is None
    assert [as_tuple(row) for row in made[RECORDS]] == scalar_records(segments)
    assert sum(row["topic"] == TOPIC and not row["is_control"] for row in made[RECORDS]) == 202
    expected = scalar_tables(segments)
    assert set(made) - {RECORDS} == set(expected)
    for table, rows in expected.items():
        assert [(row["offset"], row["key"], row["value"]) for row in made[table]] == rows, table
    assert {"offset_commit", "group_metadata", "transaction_log"} < set(expected)
    assert {"consumer_group_metadata", "consumer_group_current_member_assignment"} < set(expected)
