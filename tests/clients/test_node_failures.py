"""Real clients while nodes fail: they lose nothing, and notice truncations."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.client_libraries import FRANZ_GO, client_named, java_classes
from tests.clients.node_failure_scenario import (
    ALL_KINDS,
    CONFIG,
    KINDS_WITHOUT_EPOCHS,
    NODES,
    PARTITIONS,
    TOPIC,
    NodeFailures,
    Results,
    Scenario,
)
from tests.clients.observer import end_offsets, wait_until
from tests.clients.process import running_driver
from tests.clients.readers import read_by_librdkafka
from tests.oracle.jars import java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.control.commands.leaders import LeaderStatus
    from tests.clients.client_libraries import Client

pytestmark = pytest.mark.client

_FEW, _MANY = 5, 50
_SEED = 11
_TIMEOUT_S = 30.0


def _run(client: Client, protocol: str, failures: int, directory: Path) -> Results:
    broker = Broker(brokers=NODES, topics={TOPIC: PARTITIONS}, config=CONFIG, log_level="error")
    with broker, running_driver(client, broker.bootstrap_servers, directory) as driver:
        kinds = KINDS_WITHOUT_EPOCHS if client.name == "aiokafka" else ALL_KINDS
        nodes = NodeFailures(broker, random.Random(_SEED), kinds)  # noqa: S311 - reproducible
        results = Scenario(broker, driver, protocol, nodes).run(failures)
    sys.stdout.write(f"{results}\n")
    return results


def test_no_record_is_lost_or_repeated_while_nodes_fail(tmp_path: Path) -> None:
    results = _run(client_named("confluent-kafka"), "classic", _FEW, tmp_path)
    assert results.failures.total() == _FEW
    assert results.commits > 0


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        pytest.param(client_named("confluent-kafka"), "consumer", id="librdkafka"),
        pytest.param(client_named("aiokafka"), "classic", id="aiokafka"),
        pytest.param(client_named("java"), "consumer", id="java"),
        pytest.param(FRANZ_GO, "classic", id="franz-go"),
    ],
)
def test_no_record_is_lost_or_repeated_during_many_failures(
    client: Client, protocol: str, tmp_path: Path
) -> None:
    results = _run(client, protocol, _MANY, tmp_path)
    assert results.failures.total() == _MANY
    assert results.commits > 0
    assert results.observations > 1


# --- unclean elections ---------------------------------------------------------------------------

_BEFORE, _LOST, _AFTER = 5, 7, 2
"""Numbers of records that all nodes have, that the new leader does not have, and that it writes."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Node 1 leads `orders-0`, and consumers can read records that node 2 does not have."""
    config = {**CONFIG, "min.insync.replicas": 1}
    with Broker(brokers=NODES, topics={TOPIC: 1}, config=config) as running:
        running.move_leader(TOPIC, 0, 1)
        _write(running, range(_BEFORE))
        running.nodes[2].pause_replication()
        _write(running, range(_BEFORE, _BEFORE + _LOST))
        wait_until(lambda: _end(running) == _BEFORE + _LOST, "node 2 to leave the ISR")
        yield running


def _write(broker: Broker, numbers: range) -> None:
    """Write numbers with acks=1, and check that all are acknowledged."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 1})
    for number in numbers:
        producer.produce(
            TOPIC, str(number), on_delivery=lambda error, _message: errors.append(error)
        )
    assert producer.flush(_TIMEOUT_S) == 0
    assert errors == [None] * len(numbers)


def _end(broker: Broker) -> int:
    return end_offsets(broker.bootstrap_servers, TOPIC, 1)[0]


def _elect_the_lagging_replica(broker: Broker) -> LeaderStatus:
    moved = broker.move_leader(TOPIC, 0, 2, unclean=True)
    _write(broker, range(_BEFORE + _LOST, _BEFORE + _LOST + _AFTER))
    return moved


def test_exactly_the_truncated_records_are_lost(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = _elect_the_lagging_replica(broker)
    assert (moved.leader, moved.end_offset, moved.truncated_records) == (2, _BEFORE, _LOST)
    written = [str(number) for number in range(_BEFORE + _LOST + _AFTER)]
    rows = read_by_librdkafka(broker.bootstrap_servers, TOPIC, 1)[0]
    assert [value for _, value in rows] == written[:_BEFORE] + written[_BEFORE + _LOST :]
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "new leader" in line]
    assert "warning" in warning
    facts = {
        "topic": TOPIC,
        "partition": 0,
        "leader": 2,
        "leader_epoch": moved.leader_epoch,
        "end_offset": _BEFORE,
        "removed_offsets": _LOST,
    }
    for name, value in facts.items():
        assert f"{name}={value}" in warning
    (entry,) = broker.explain(topic=TOPIC)
    assert (entry.kind, entry.facts) == ("truncated", facts)


def test_consumer_of_librdkafka_notices_a_truncation(broker: Broker) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    assert len(consumer.consume(_BEFORE + _LOST, _TIMEOUT_S)) == _BEFORE + _LOST
    _elect_the_lagging_replica(broker)
    message = consumer.poll(_TIMEOUT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET, error
    assert f"truncation detected at offset {_BEFORE + _LOST} " in error.str()
    assert f"broker end offset is {_BEFORE} " in error.str()
    consumer.close()


@pytest.mark.endurance
def test_java_consumer_notices_a_truncation(broker: Broker) -> None:
    with required():
        command = java_command("LogTruncation", classes=java_classes(), log_level="error")
    arguments = [broker.bootstrap_servers, TOPIC, str(_BEFORE + _LOST)]
    with subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"read {_BEFORE + _LOST}\n"
            _elect_the_lagging_replica(broker)
            output, _ = process.communicate("\n", _TIMEOUT_S)
        finally:
            process.kill()
    assert output == f"truncated {_BEFORE + _LOST} {_BEFORE}\n"
