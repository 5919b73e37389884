"""The columnar and the scalar reader give the same records of data directories, Kafka's and ours.

The records are those that clients wrote, with every codec, in transactions and with headers, and
those of coordinators for groups of both protocols and for transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.lab.columnar.decoding.decode_plan import to_arrow_value
from kafkalite.lab.columnar.records.data_directories import (
    PROBLEMS,
    RECORDS,
    LogOptions,
    Segment,
    find_segments,
    read_segment,
)
from kafkalite.metadata.internal_topics import RECORD_LOGS
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol._generated.codecs.index import RECORD_TYPES
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec
from kafkalite.storage.recovery import valid_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.primitives import KafkaStruct
    from kafkalite.storage.batch import BatchView
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Rows = dict[str, list[dict[str, object]]]
Config = dict[str, str | int | float | bool]
Headers = list[tuple[str, str | bytes | None]]


def write(target: Target, topic: str) -> None:
    """Write records as clients do, and commit offsets by both protocols and in a transaction."""
    servers: Config = {"bootstrap.servers": target.bootstrap}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(timeout=20)
    for compression in CODECS:
        producer = Producer({**servers, "compression.type": compression, "linger.ms": 20})
        for number in range(40):
            key = None if number % 5 == 0 else f"{compression} {number}".encode()
            headers: Headers = [("from", compression), ("empty", None)]
            value = None if number % 7 == 0 else b"value " * number
            producer.produce(topic, value, key, partition=number % 2, headers=headers[number % 3 :])
        assert producer.flush(20) == 0
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                **servers,
                "group.id": f"{topic} {protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        assert consumer.consume(5, timeout=20)
        consumer.commit(asynchronous=False)
        if protocol == "classic":
            transact(servers, consumer, topic)
        consumer.close()


def transact(servers: Config, consumer: Consumer, topic: str) -> None:
    producer = Producer({**servers, "transactional.id": topic})
    producer.init_transactions(20)
    for end_transaction in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction", partition=0)
        assert producer.flush(20) == 0  # an abort drops unsent records
        offsets = [TopicPartition(topic, 0, 3)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
        end_transaction(20)


def columnar(segments: list[Segment]) -> Rows:
    rows_by_table: Rows = {}
    for segment in segments:
        with open(segment.path, "rb") as file:  # noqa: PTH123 - a path is text here
            for table, rows in read_segment(file, segment.path, LogOptions(with_control=True)):
                rows_by_table.setdefault(table, []).extend(rows.to_pylist())
    return rows_by_table


def batches(segment: Segment) -> Iterator[BatchView]:
    file = OsFiles().open(segment.path)
    for _, batch in valid_batches(file.pread, file.size, segment.base_offset):
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
    headers = tuple((header["key"], header["value"]) for header in row["headers"])  # type: ignore[attr-defined]
    return (
        *(row["topic"], row["partition"], row["offset"], round(at * 1000)),
        *(row["key"], row["value"], headers, row["is_control"], row["producer_id"]),
    )


def scalar_tables(segments: list[Segment]) -> dict[str, list[object]]:
    """Decode the records of coordinators one by one."""
    rows_by_table: dict[str, list[object]] = {}
    for segment in segments:
        log = RECORD_LOGS.get(segment.topic)
        if log is None:
            continue
        for batch in batches(segment):
            for record in () if batch.is_control else batch.records():
                assert record.key is not None
                number = int.from_bytes(record.key[:2], "big")
                table, key_name, value_name, version = RECORD_TYPES[log][number]
                key = to_arrow_value(codec.decode_key(record.key, log), tree(key_name, version))
                value = None
                if record.value is not None:
                    value_version = int.from_bytes(record.value[:2], "big")
                    message = codec.decode_value(number, record.value, log)
                    value = to_arrow_value(message, tree(value_name, value_version))
                rows_by_table.setdefault(table, []).append((record.offset, key, value))
    return rows_by_table


def tree(name: str, version: int) -> KafkaStruct:
    return message_tree(load_spec("records", name), version)


@pytest.mark.parametrize(
    "name", ["emulator", pytest.param("real_kafka", marks=pytest.mark.endurance)]
)
def test_the_columnar_reading_equals_the_scalar_reading(
    name: str, request: pytest.FixtureRequest, attempt: int
) -> None:
    target: Target = request.getfixturevalue(name)
    topic = f"columnar-logs-{attempt}"
    write(target, topic)
    # Kafka's cluster metadata has records in a different format.
    segments = [
        segment
        for segment in find_segments(OsFiles(), str(target.data))
        if segment.topic == topic or segment.topic in RECORD_LOGS
    ]

    rows_by_table = columnar(segments)

    assert rows_by_table.get(PROBLEMS) is None
    assert [as_tuple(row) for row in rows_by_table[RECORDS]] == scalar_records(segments)
    assert (
        sum(row["topic"] == topic and not row["is_control"] for row in rows_by_table[RECORDS])
        == 202
    )
    expected = scalar_tables(segments)
    assert set(rows_by_table) - {RECORDS} == set(expected)
    for table, rows in expected.items():
        assert [
            (row["offset"], row["key"], row["value"]) for row in rows_by_table[table]
        ] == rows, table
    assert {"offset_commit", "group_metadata", "transaction_log"} < set(expected)
    assert {"consumer_group_metadata", "consumer_group_current_member_assignment"} < set(expected)
