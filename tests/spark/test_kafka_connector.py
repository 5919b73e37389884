"""Spark's own Kafka source and sink, from its official jars, with kafkalite."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.clients.committed_reader import CommittedReader
from tests.clients.observer import wait_until
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.spark.connector.jars import application_environment
from tests.unit.docker.image import DOCKER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.client]

ORDERS = str(DOCKER / "spark" / "orders.py")
PARTITIONS = 3
FIRST_COUNT, SECOND_COUNT = 2_000, 700
_PATIENCE_S = 120.0

Row = tuple[bytes | None, bytes | None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedKafkalite]:
    """Start a broker with a data directory, so that it can be killed and restarted."""
    (tmp_path / "broker").mkdir()
    broker = ServedKafkalite(tmp_path / "broker", {"num.partitions": str(PARTITIONS)})
    broker.start()
    yield broker
    broker.kill()


def start(log: Path, *command: str) -> subprocess.Popen[str]:
    with required():
        environment = application_environment()
    with log.open("a") as stderr:
        return subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
        )


def finish(application: subprocess.Popen[str], log: Path) -> str:
    output, _ = application.communicate(timeout=_PATIENCE_S)
    assert application.returncode == 0, log.read_text()[-3000:]
    return output


def test_batch_is_written_and_read_with_all_options(
    broker: ServedKafkalite, tmp_path: Path
) -> None:
    log = tmp_path / "batch.log"
    batch = start(log, "-m", "tests.spark.connector.batch", broker.bootstrap, "batched", "300")
    result: dict[str, Any] = json.loads(finish(batch, log))

    counts = Counter[int]()
    expected = []
    for number in range(300):
        value = None if number % 10 == 0 else f"value {number}"
        expected.append([f"{number}", value, number % PARTITIONS, f"{number}"])
        counts[number % PARTITIONS] += 1
    assert [[*row[:3], row[4]] for row in result["records"]] == sorted(
        expected, key=lambda row: str(row[0])
    )
    for partition, count in counts.items():
        offsets = [row[3] for row in result["records"] if row[2] == partition]
        assert sorted(offsets) == list(range(count))
    assert result["matched"] == result["since"] == 300
    assert result["assigned"] == 100
    assert result["cut"] == 4 + 4 + 2
    assert result["after"] == 0


def produce(bootstrap: str, start: int, count: int) -> list[Row]:
    """Write records in transactions, every third of them aborted; return what was committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "orders"})
    producer.init_transactions()
    committed: list[Row] = []
    for first_number in range(start, start + count, 50):
        producer.begin_transaction()
        rows = [
            (f"{number}".encode(), None if number % 7 == 0 else b"%d apples" % number)
            for number in range(first_number, first_number + 50)
        ]
        for key, value in rows:
            producer.produce("orders", key=key, value=value, headers={"n": key or b""})
        if first_number % 150 == 0:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            committed += rows
    return committed


def test_stream_continues_from_its_checkpoint_after_kills_of_both_sides(
    broker: ServedKafkalite, spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    arguments = (ORDERS, broker.bootstrap, "orders", "orders-seen", str(directory))
    log = tmp_path / "orders.log"
    committed = produce(broker.bootstrap, 0, FIRST_COUNT)

    killed = start(log, *arguments)
    steps = directory / "records" / "_spark_metadata"
    wait_until(lambda: len(list(steps.glob("[0-9]*"))) > 1, "two steps", _PATIENCE_S)
    killed.kill()
    killed.communicate()
    broker.kill()
    broker.start()
    committed += produce(broker.bootstrap, FIRST_COUNT, SECOND_COUNT)
    finish(start(log, *arguments, "--until-read"), log)

    files = spark.read.parquet(str(directory / "records"))
    read = [(row.key, row.value) for row in files.select("key", "value").collect()]
    assert Counter(map(_row, read)) == Counter(committed)
    positions = files.select("partition", "offset").distinct().count()
    assert positions == len(committed)
    assert all(row.headers[0].value == row.key for row in files.select("key", "headers").collect())
    # The sink is not transactional, so records may be written twice around a kill.
    with CommittedReader(broker.bootstrap, {"orders-seen": PARTITIONS}, _PATIENCE_S) as reader:

        def is_all_copied() -> bool:
            reader.read()
            return {(message.key(), message.value()) for message in reader.messages} == set(
                committed
            )

        wait_until(is_all_copied, "every record to be copied", _PATIENCE_S)


def _row(row: tuple[bytearray | None, bytearray | None]) -> Row:
    key, value = row
    return (None if key is None else bytes(key), None if value is None else bytes(value))
