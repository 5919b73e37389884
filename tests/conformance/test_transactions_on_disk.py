"""Logs with transactions in them go from one broker to the other and back, and stay Kafka's own.

Some transactions are committed, some aborted, one is open when Kafka is killed. Ours finds them so,
ends the open one, goes on with others, compacts the log; then Kafka reads what was committed.
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
from kafkalite.ports.files import OsFiles
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView
from kafkalite.storage.cleaning import clean
from kafkalite.storage.compaction import compaction_of
from kafkalite.storage.log import Log
from kafkalite.storage.marker import TransactionMarker
from kafkalite.storage.records import NewRecord
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
"""Beyond every horizon that Kafka's cleaner could have set."""
DEAD, OURS = 900_001, 900_002
"""Producer ids that Kafka has not given to anybody."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    config = {"transaction.state.log.num.partitions": "1", "log.cleaner.enable": "false"}
    with required():
        broker = RealKafka(tmp_path / "kafka", config)
        broker.start()
    yield broker
    broker.kill()


def produce_transactions(bootstrap: str) -> dict[bytes, bytes]:
    """Write the same keys again and again, and return what was committed last."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"segment.bytes": str(1 << 20), "cleanup.policy": "compact"}
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(30)
    latest: dict[bytes, bytes] = {}
    for number, end in enumerate(("commit", "abort", "commit", "abort", "open")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        wrote = {b"key %d" % each: b"%d" % number + b"v" * 9000 for each in range(number, 40)}
        for key, value in wrote.items():
            producer.produce("t", value, key)
        assert producer.flush(30) == 0
        if end != "open":
            getattr(producer, f"{end}_transaction")(30)
        if end == "commit":
            latest |= wrote
    return latest


def test_a_log_with_transactions_goes_to_and_fro(kafka: RealKafka, tmp_path: Path) -> None:
    latest = produce_transactions(kafka.bootstrap)
    kafka.kill()

    directory = tmp_path / "kafka" / "data" / "t-0"
    log = Log.open(OsFiles(), str(directory), COMPACT, now_ms=0)
    partition = Partition("t", bytes(16), IMAGE, log)
    (open_producer,) = (
        one for one in log.producers.entries if one.transaction_first_offset is not None
    )
    assert partition.last_stable_offset == open_producer.transaction_first_offset
    assert len(log.aborted_transactions(0, log.end_offset)) == 2
    fenced = TransactionMarker(
        open_producer.producer_id, open_producer.producer_epoch + 1, 0, False, 2
    )
    partition.append_marker(fenced, NOW_MS)
    assert partition.last_stable_offset == partition.end_offset

    latest |= append_ours(partition)
    log.roll(NOW_MS)
    compact(partition)
    log.roll(NOW_MS)
    append(partition, DEAD, {b"key 1": b"never"})
    stable_offset = partition.last_stable_offset
    assert stable_offset == partition.end_offset - 1
    log.close()

    heads = dump("--files", ",".join(files_of(directory, ".log")))
    assert "isvalid: false" not in heads
    assert heads.count("isvalid: true") == len(list(log.batches()))
    producers = dump("--files", files_of(directory, ".snapshot")[-1])
    first_offset = rf"currentTxnFirstOffset: OptionalLong\[{stable_offset}\]"
    assert re.search(rf"producerId: {DEAD} .*{first_offset}", producers)

    kafka.start()
    committed = consume_all(kafka.bootstrap, "read_committed")
    assert {key: value for _, key, value in committed} == latest
    assert all(offset is not None and offset < stable_offset for offset, _, _ in committed)
    assert [row for row in consume_all(kafka.bootstrap, "read_uncommitted") if hidden(row)] == [
        (stable_offset, b"key 1", b"never")
    ]


def hidden(row: Row) -> bool:
    return row[2] == b"never" or (row[2] or b"")[:1] in b"134"


def append(
    partition: Partition, producer_id: int, rows: dict[bytes, bytes], epoch: int = 0
) -> None:
    """Append one batch of a transaction."""
    records = [NewRecord(key, value, NOW_MS) for key, value in rows.items()]
    data = batches.build_batch(
        records,
        attributes=batches.TRANSACTIONAL,
        producer=batches.Producer(producer_id, epoch, 0),
    )
    partition.append(BatchView(data), NOW_MS, is_verified=True)


def append_ours(partition: Partition) -> dict[bytes, bytes]:
    """Go on with transactions of a producer whose epoch grows; return what was committed."""
    committed: dict[bytes, bytes] = {}
    for epoch, is_commit in enumerate((True, False, True, False)):
        rows = {b"ours %d" % each: b"ours %d" % epoch for each in range(epoch, 6)}
        append(partition, OURS, rows, epoch)
        marker = TransactionMarker(OURS, epoch + 1, 0, is_commit, 2)
        partition.append_marker(marker, NOW_MS)
        if is_commit:
            committed |= rows
    return committed


def compact(partition: Partition) -> None:
    log = partition.log
    plan = compaction_of(log, last_stable_offset=partition.last_stable_offset, now_ms=NOW_MS)
    assert plan is not None
    for _ in clean(log, plan, now_ms=NOW_MS):
        pass
