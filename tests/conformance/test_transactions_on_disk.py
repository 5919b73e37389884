"""A data directory with transactions is moved from Kafka to kafkalite and back.

Some transactions are committed, some are aborted, and one is open when Kafka is killed. kafkalite
loads them in the same states, ends the open one, runs further transactions and compacts the log.
Then Kafka reads the committed records.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.image import PartitionImage
from kafkalite.partitions.partition import Partition
from kafkalite.ports.background import run_steps
from kafkalite.ports.files import OsFiles
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log import Log
from kafkalite.storage.log_cleaner import clean
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.conformance.test_log_on_disk import Row, consume_all, dump, files_of
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

COMPACT = LogConfig(
    segment_bytes=1 << 20,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
)
IMAGE = PartitionImage(
    index=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
)
NOW_MS = 4_000_000_000_000
"""Later than any delete horizon that Kafka's log cleaner could have set."""
HANGING, WRITER = 900_001, 900_002
"""Producer ids that Kafka has not issued."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    config = {"transaction.state.log.num.partitions": "1", "log.cleaner.enable": "false"}
    with required():
        broker = RealKafka(tmp_path / "kafka", config)
        broker.start()
    yield broker
    broker.kill()


def produce_transactions(bootstrap: str) -> dict[bytes, bytes]:
    """Write the same keys several times; return the last committed value of each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"segment.bytes": str(1 << 20), "cleanup.policy": "compact"}
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(30)
    latest: dict[bytes, bytes] = {}
    for number, outcome in enumerate(("commit", "abort", "commit", "abort", "open")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        written = {b"key %d" % index: b"%d" % number + b"v" * 9000 for index in range(number, 40)}
        for key, value in written.items():
            producer.produce("t", value, key)
        assert producer.flush(30) == 0
        if outcome != "open":
            getattr(producer, f"{outcome}_transaction")(30)
        if outcome == "commit":
            latest |= written
    return latest


def test_a_log_with_transactions_moves_between_both_brokers(
    kafka: RealKafka, tmp_path: Path
) -> None:
    latest = produce_transactions(kafka.bootstrap)
    kafka.kill()

    directory = tmp_path / "kafka" / "data" / "t-0"
    log = Log.open(OsFiles(), str(directory), COMPACT, now_ms=0)
    partition = Partition("t", bytes(16), IMAGE, log)
    (open_producer,) = (
        entry for entry in log.producers.entries if entry.transaction_first_offset is not None
    )
    assert partition.last_stable_offset == open_producer.transaction_first_offset
    assert len(log.aborted_transactions(0, log.end_offset)) == 2
    fenced = TransactionMarker(
        open_producer.producer_id, open_producer.producer_epoch + 1, 0, False, 2
    )
    partition.append_marker(fenced, NOW_MS)
    assert partition.last_stable_offset == partition.end_offset

    latest |= append_transactions(partition)
    log.roll(NOW_MS)
    compact(partition)
    log.roll(NOW_MS)
    append(partition, HANGING, {b"key 1": b"never"})
    stable_offset = partition.last_stable_offset
    assert stable_offset == partition.end_offset - 1
    log.close()

    batch_headers = dump("--files", ",".join(files_of(directory, ".log")))
    assert "isvalid: false" not in batch_headers
    assert batch_headers.count("isvalid: true") == len(list(log.batches()))
    producers = dump("--files", files_of(directory, ".snapshot")[-1])
    first_offset = rf"currentTxnFirstOffset: OptionalLong\[{stable_offset}\]"
    assert re.search(rf"producerId: {HANGING} .*{first_offset}", producers)

    kafka.start()
    committed = consume_all(kafka.bootstrap, "read_committed")
    assert {key: value for _, key, value in committed} == latest
    assert all(offset is not None and offset < stable_offset for offset, _, _ in committed)
    assert [
        row for row in consume_all(kafka.bootstrap, "read_uncommitted") if is_uncommitted(row)
    ] == [(stable_offset, b"key 1", b"never")]


def is_uncommitted(row: Row) -> bool:
    return row[2] == b"never" or (row[2] or b"")[:1] in b"134"


def append(
    partition: Partition, producer_id: int, rows: dict[bytes, bytes], epoch: int = 0
) -> None:
    """Append one batch of a transaction."""
    records = [NewRecord(key, value, NOW_MS) for key, value in rows.items()]
    data = batches.build_batch(
        records,
        attributes=batches.TRANSACTIONAL,
        producer=batches.BatchProducer(producer_id, epoch, 0),
    )
    partition.append(BatchView(data), NOW_MS, is_verified=True)


def append_transactions(partition: Partition) -> dict[bytes, bytes]:
    """Append transactions of a producer whose epoch grows; return the committed values."""
    committed: dict[bytes, bytes] = {}
    for epoch, is_commit in enumerate((True, False, True, False)):
        rows = {b"ours %d" % index: b"ours %d" % epoch for index in range(epoch, 6)}
        append(partition, WRITER, rows, epoch)
        marker = TransactionMarker(WRITER, epoch + 1, 0, is_commit, 2)
        partition.append_marker(marker, NOW_MS)
        if is_commit:
            committed |= rows
    return committed


def compact(partition: Partition) -> None:
    log = partition.log
    plan = plan_log_compaction(log, last_stable_offset=partition.last_stable_offset, now_ms=NOW_MS)
    assert plan is not None
    run_steps(clean(log, plan, now_ms=NOW_MS))
