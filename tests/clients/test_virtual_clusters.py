"""Clients of one port use topics, groups and transactions of their clusters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.testing import Broker
from tests.clients.client_libraries import driver_environment, franz_go_worker, java_classes
from tests.clients.process import DriverProcess
from tests.oracle.jars import java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance

CLUSTERS = ("w1", "w2", "w3")


def write_and_read(servers: str, cluster: str, count: int) -> list[bytes]:
    """Write records in a transaction, and read what the cluster has with a group."""
    own = {"bootstrap.servers": servers, "client.id": f"{cluster}/test"}
    producer = Producer({**own, "transactional.id": "writer"})
    producer.init_transactions(10)
    producer.begin_transaction()
    for number in range(count):
        producer.produce("orders", f"{cluster}-{number}")
    producer.commit_transaction(10)
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**own, **group, "enable.partition.eof": True})
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    while (message := consumer.poll(10)) is not None and not message.error():
        values.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_librdkafka_and_kafka_python_see_only_their_cluster() -> None:
    from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415 - it warns of itself

    with Broker(storage="memory", topics={"orders": 1}, clusters="client-id") as broker:
        servers = broker.bootstrap_servers
        for count, name in enumerate(CLUSTERS, 1):
            expected = [f"{name}-{number}".encode() for number in range(count)]
            assert write_and_read(servers, name, count) == expected
        for count, name in enumerate(CLUSTERS, 1):
            own = {"bootstrap_servers": servers, "client_id": f"{name}/python"}
            producer = KafkaProducer(**own)
            producer.send("orders", b"python").get(10)
            producer.close()
            consumer = KafkaConsumer(
                "orders", **own, auto_offset_reset="earliest", consumer_timeout_ms=10_000
            )
            values = [next(consumer).value for _ in range(count + 1)]
            consumer.close()
            assert values == [*(f"{name}-{number}".encode() for number in range(count)), b"python"]
            # The commit of the group of the same name in each cluster.
            assert broker.cluster(name).committed("readers") == {("orders", 0): count + 1}
        assert broker.records("orders") == []


@pytest.mark.parametrize("library", ["java", "franz-go"])
def test_java_and_franz_go_see_only_their_cluster(library: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 kafka.localhost w1.kafka.localhost w2.kafka.localhost\n")
    with required():
        command = (
            java_command("SecurityDriver", classes=java_classes(), log_level="error")
            if library == "java"
            else [*franz_go_worker(), "secured"]
        )
    environment = {**driver_environment(), "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts}"}
    driver = DriverProcess(command, tmp_path / "driver.log", environment)
    by_name: dict[str, Any] = {
        "security": "SSL",
        "config": {"advertised.listeners": "SSL://kafka.localhost:0"},
    }
    try:
        for kind, settings in (("client-id", {}), ("sni", by_name)):
            with Broker(
                storage="memory", topics={"orders": 1}, clusters=kind, **settings
            ) as broker:
                for name in ("w1", "w2"):
                    own = broker.cluster(name)
                    client = own.client_config(library)
                    value = driver.exchange("orders", "readers", f"of {name}", settings=client)
                    assert value == f"of {name}"
                    assert [each.value for each in own.records("orders")] == [value.encode()]
                assert broker.records("orders") == []
    finally:
        driver.close()
