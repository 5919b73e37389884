"""The log on disk is Kafka's: its tool reads ours, and each broker continues the other's log.

The tests compare every record and its offset, the indexes, the snapshots of producers, aborted
transactions, and leader epochs.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.background import run_steps
from kafkalite.ports.files import OsFiles
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView, ControlKind, ControlMarker, build_control_batch
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log import Log
from kafkalite.storage.log_cleaner import clean
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.timestamps import offset_for_timestamp
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.oracle

START_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=10_000, index_interval_bytes=500)
Row = tuple[int | None, bytes | None, bytes | None]
"""Offset, key and value."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def dump(*options: str) -> str:
    """Return the output of DumpLogSegments."""
    with required():
        command = java_command("org.apache.kafka.tools.DumpLogSegments", *options)
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def files_of(directory: Path, suffix: str) -> list[str]:
    return [str(path) for path in sorted(directory.glob(f"*{suffix}"))]


def append_all_kinds(log: Log) -> None:
    """Append every kind of batch: all codecs, an idempotent producer, transactions."""
    sequence = 0
    for number in range(200):
        count = number % 7 + 1
        now_ms = START_MS + 10 * number
        records = [
            NewRecord(b"key %d" % index, b"value" * (number % 23), now_ms + index, (("h", None),))
            for index in range(count)
        ]
        is_transactional = number % 10 == 5
        producer = (
            batches.BatchProducer(77, 0, 0)
            if is_transactional
            else batches.BatchProducer(5, 0, sequence)
        )
        attributes = number % 5 | (batches.TRANSACTIONAL if is_transactional else 0)
        data = batches.build_batch(records, attributes=attributes, producer=producer)
        log.append([BatchView(data)], leader_epoch=number // 50, now_ms=now_ms)
        if is_transactional:
            control_kind = ControlKind.ABORT if number % 20 == 5 else ControlKind.COMMIT
            marker = build_control_batch(
                ControlMarker(control_kind, 3), producer_id=77, producer_epoch=0, now_ms=now_ms
            )
            log.append([BatchView(marker)], leader_epoch=number // 50, now_ms=now_ms)
        else:
            sequence += count


@pytest.fixture(scope="module")
def closed_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Path]:
    """Return a log of several segments, closed, and its directory."""
    directory = tmp_path_factory.mktemp("ours") / "t-0"
    log = Log.open(OsFiles(), str(directory), SMALL, now_ms=0, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    append_all_kinds(log)
    assert len(log.segments) > 2
    log.close()
    return log, directory


def test_kafkas_tool_finds_every_batch_valid(closed_log: tuple[Log, Path]) -> None:
    log, directory = closed_log
    output = dump(
        "--deep-iteration", "--print-data-log", "--files", ",".join(files_of(directory, ".log"))
    )
    headers = [line for line in output.splitlines() if line.startswith("baseOffset")]
    views = list(log.batches())
    assert len(headers) == len(views)
    for header, view in zip(headers, views, strict=True):
        assert header.endswith(f"crc: {view.crc} isvalid: true")
        assert header.startswith(f"baseOffset: {view.base_offset} lastOffset: {view.last_offset} ")
        assert f"compresscodec: {CODECS[view.compression]} " in header
        assert f"partitionLeaderEpoch: {view.leader_epoch} " in header
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert offsets == list(range(log.end_offset))


def test_kafkas_tool_accepts_the_indexes(closed_log: tuple[Log, Path]) -> None:
    _, directory = closed_log
    files = ",".join(files_of(directory, "index"))
    sanity_check = dump("--index-sanity-check", "--files", files)
    assert sanity_check.count("passed sanity check") == len(files_of(directory, ".index")) * 2
    checked = dump("--verify-index-only", "--files", files)
    assert "ismatch" not in checked
    assert "Found" not in checked
    assert "not found" not in checked


def test_kafkas_tool_reads_producers_and_aborted_transactions(closed_log: tuple[Log, Path]) -> None:
    log, directory = closed_log
    aborted = dump("--files", ",".join(files_of(directory, ".txnindex")))
    rows = re.findall(
        r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastS\S+ (\d+)", aborted
    )
    assert [tuple(map(int, row)) for row in rows] == [
        tuple(transaction) for transaction in log.aborted_transactions(0, log.end_offset)
    ]
    producers = dump("--files", files_of(directory, ".snapshot")[-1])
    producer_rows = re.findall(
        r"producerId: (\d+) .* lastSequence: (\d+) lastOffset: (\d+)", producers
    )
    assert [tuple(map(int, row)) for row in producer_rows] == [
        (entry.producer_id, entry.last_sequence, entry.batches[-1].last_offset)
        for entry in log.producers.entries
    ]


def test_kafkas_tool_finds_a_compacted_log_valid(tmp_path: Path) -> None:
    config = SMALL._replace(cleanup_policy=frozenset({"compact"}))
    log = Log.open(OsFiles(), str(tmp_path / "t-0"), config, now_ms=0)
    append_all_kinds(log)
    tombstone = batches.build_batch([NewRecord(b"key 3", None, START_MS)])
    log.append([BatchView(tombstone)], leader_epoch=9, now_ms=0)
    log.roll(0)
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=START_MS)
    assert plan is not None
    run_steps(clean(log, plan, now_ms=START_MS))
    log.close()
    output = dump("--deep-iteration", "--files", ",".join(files_of(tmp_path / "t-0", ".log")))
    assert "isvalid: false" not in output
    assert output.count("isvalid: true") == len(list(log.batches()))
    assert "deleteHorizonMs: OptionalLong[" in output


# --- a directory that is moved from one broker to the other -----------------------------------


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    with required():
        broker = RealKafka(tmp_path / "kafka", {"transaction.state.log.num.partitions": "1"})
        broker.start()
    yield broker
    broker.kill()


def produce_all_kinds(bootstrap: str) -> None:
    """Produce with every codec, in transactions that end both ways, into two segments."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("t", 1, 1, config={"segment.bytes": str(1 << 20)})
    admin.create_topics([topic])["t"].result(30)
    for number, codec in enumerate(CODECS):
        client = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
        producer = Producer({**client, "enable.idempotence": True})
        for index in range(300):
            key = f"{codec} {index}".encode()
            producer.produce("t", b"v" * 1500, key, timestamp=START_MS + 1000 * number + index)
        producer.flush(30)
    for end_method in ("commit_transaction", "abort_transaction"):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": end_method})
        producer.init_transactions(30)
        producer.begin_transaction()
        for index in range(20):
            producer.produce("t", b"txn", f"{end_method} {index}".encode())
        producer.flush(30)  # an abort drops unsent records
        getattr(producer, end_method)(30)


def consume_all(bootstrap: str, isolation: str) -> list[Row]:
    """Return offset, key and value of every record of `t` that a consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "conformance",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    records = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                break
            raise KafkaException(error)
        records.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return records


def data_records(log: Log) -> list[Row]:
    return [
        (record.offset, record.key, record.value)
        for view in log.batches()
        if not view.is_control
        for record in view.records()
    ]


@pytest.mark.endurance
@pytest.mark.parametrize("is_clean", [True, False])
def test_each_broker_continues_the_others_log(
    kafka: RealKafka,
    tmp_path: Path,
    is_clean: bool,  # noqa: FBT001
) -> None:
    produce_all_kinds(kafka.bootstrap)
    before = consume_all(kafka.bootstrap, "read_uncommitted")
    if is_clean:
        kafka.stop()
    else:
        kafka.kill()

    directory = tmp_path / "kafka" / "data" / "t-0"
    config = LogConfig(segment_bytes=1 << 20)
    log = Log.open(OsFiles(), str(directory), config, now_ms=0, clean_shutdown=is_clean)
    assert data_records(log) == before
    assert log.start_offset == 0
    assert log.epochs.entries == [(0, 0)]
    assert len(log.segments) > 1
    assert [
        transaction.last_offset for transaction in log.aborted_transactions(0, log.end_offset)
    ] == [log.end_offset - 1]
    position = offset_for_timestamp(log, START_MS + 1000)
    assert position is not None
    assert (position.offset, position.timestamp) == (300, START_MS + 1000)
    producers = {entry.producer_id for entry in log.producers.entries}
    assert len(producers) == len(CODECS) + 2

    for _ in range(3):
        append_all_kinds(log)
    log.roll(START_MS)
    append_all_kinds(log)
    expected = data_records(log)
    log.close()

    kafka.start()
    assert consume_all(kafka.bootstrap, "read_uncommitted") == expected
    aborted = log.aborted_transactions(0, log.end_offset)
    committed = consume_all(kafka.bootstrap, "read_committed")
    assert len(committed) < len(expected) - len(aborted)
    aborted_offsets = {row[0] for row in expected} - {row[0] for row in committed}
    assert aborted_offsets == {
        record.offset
        for view in log.batches()
        if view.is_transactional
        and not view.is_control
        and any(
            transaction.producer_id == view.producer_id
            and transaction.first_offset <= view.base_offset <= transaction.last_offset
            for transaction in aborted
        )
        for record in view.records()
    }
