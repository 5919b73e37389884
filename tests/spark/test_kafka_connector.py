"""Spark's own Kafka source and sink, from its official jars, at kafkalite."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.clients.committed import CommittedReader
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
FIRST, THEN = 2_000, 700
_PATIENCE_S = 120.0

Row = tuple[bytes | None, bytes | None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedKafkalite]:
    """Give a broker that keeps what it has, to be killed and started again."""
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
    said, _ = application.communicate(timeout=_PATIENCE_S)
    assert application.returncode == 0, log.read_text()[-3000:]
    return said


def test_a_batch_is_written_and_read_in_every_way(broker: ServedKafkalite, tmp_path: Path) -> None:
    log = tmp_path / "batch.log"
    batch = start(log, "-m", "tests.spark.connector.batch", broker.bootstrap, "batched", "300")
    told: dict[str, Any] = json.loads(finish(batch, log))

    places = Counter[int]()
    expected = []
    for number in range(300):
        value = None if number % 10 == 0 else f"value {number}"
        expected.append([f"{number}", value, number % PARTITIONS, f"{number}"])
        places[number % PARTITIONS] += 1
    assert [[*row[:3], row[4]] for row in told["records"]] == sorted(
        expected, key=lambda row: str(row[0])
    )
    for partition, count in places.items():
        offsets = [row[3] for row in told["records"] if row[2] == partition]
        assert sorted(offsets) == list(range(count))
    assert told["matched"] == told["since"] == 300
    assert told["assigned"] == 100
    assert told["cut"] == 4 + 4 + 2
    assert told["after"] == 0


def produce(bootstrap: str, start: int, count: int) -> list[Row]:
    """Write records in transactions, every third of them aborted; return what was committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "orders"})
    producer.init_transactions()
    committed: list[Row] = []
    for first in range(start, start + count, 50):
        producer.begin_transaction()
        rows = [
            (f"{number}".encode(), None if number % 7 == 0 else b"%d apples" % number)
            for number in range(first, first + 50)
        ]
        for key, value in rows:
            producer.produce("orders", key=key, value=value, headers={"n": key or b""})
        if first % 150 == 0:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            committed += rows
    return committed


def test_a_stream_goes_on_from_its_checkpoint_after_it_and_the_broker_were_killed(
    broker: ServedKafkalite, spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    asked = (ORDERS, broker.bootstrap, "orders", "orders-seen", str(directory))
    log = tmp_path / "orders.log"
    committed = produce(broker.bootstrap, 0, FIRST)

    killed = start(log, *asked)
    steps = directory / "records" / "_spark_metadata"
    wait_until(lambda: len(list(steps.glob("[0-9]*"))) > 1, "two steps", _PATIENCE_S)
    killed.kill()
    killed.communicate()
    broker.kill()
    broker.start()
    committed += produce(broker.bootstrap, FIRST, THEN)
    finish(start(log, *asked, "--until-read"), log)

    files = spark.read.parquet(str(directory / "records"))
    read = [(row.key, row.value) for row in files.select("key", "value").collect()]
    assert Counter(map(_row, read)) == Counter(committed)
    places = files.select("partition", "offset").distinct().count()
    assert places == len(committed)
    assert all(row.headers[0].value == row.key for row in files.select("key", "headers").collect())
    # A sink that is no transaction may say twice what it said just before it was killed.
    with CommittedReader(broker.bootstrap, {"orders-seen": PARTITIONS}, _PATIENCE_S) as reader:

        def is_all_copied() -> bool:
            reader.read()
            return {(each.key(), each.value()) for each in reader.messages} == set(committed)

        wait_until(is_all_copied, "every record to be copied", _PATIENCE_S)


def _row(row: tuple[bytearray | None, bytearray | None]) -> Row:
    key, value = row
    return (None if key is None else bytes(key), None if value is None else bytes(value))
