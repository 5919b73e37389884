"""Clients push their metrics: the subscriptions of Kafka's tool, and what the broker received."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kafkalite.config.releases import DEFAULT
from kafkalite.testing import Broker
from tests.clients.tools import MAIN_CLASSES, Output, run_tool
from tests.oracle.jars import jar_directory, java_command
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.telemetry.metrics import ClientMetrics

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_TOPIC = "orders"
_DEADLINE_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Start a broker whose clients push their metrics as often as is possible."""
    with required():
        jar_directory()
    config = {"kafkalite.client.telemetry": "true"}
    with Broker(topics={_TOPIC: 1}, config=config) as running:
        tool(running, "--alter", "--name", "all", "--interval", "100", "--metrics", "*")
        yield running


def tool(broker: Broker, *arguments: str) -> Output:
    """Run kafka-client-metrics.sh."""
    output = run_tool("kafka-client-metrics", broker.bootstrap_servers, *arguments)
    assert output.status == 0, output
    return output


def test_the_tool_manages_subscriptions(broker: Broker) -> None:
    made = tool(
        broker,
        *("--alter", "--name", "producers", "--interval", "2000"),
        *("--metrics", "org.apache.kafka.producer.", "--match", "client_id=a.*"),
    )
    assert made.lines == ["Altered client metrics config for producers."]
    assert tool(broker, "--list").lines == ["all", "producers"]
    described = tool(broker, "--describe", "--name", "producers")
    assert described.lines == [
        "Client metrics configs for producers are:",
        "interval.ms=2000",
        "match=client_id=a.*",
        "metrics=org.apache.kafka.producer.",
    ]
    deleted = tool(broker, "--delete", "--name", "producers")
    assert deleted.lines == ["Deleted client metrics config for producers."]
    assert tool(broker, "--list").lines == ["all"]
    refused = run_tool(
        "kafka-client-metrics",
        broker.bootstrap_servers,
        *("--alter", "--name", "x", "--match", "client_id"),
    )
    assert refused.status == 1
    assert "Illegal client matching pattern: client_id" in refused.stdout + refused.stderr


def test_java_clients_push_their_metrics(broker: Broker) -> None:
    bootstrap = ("--bootstrap-server", broker.bootstrap_servers, "--topic", _TOPIC)
    sending = ("--num-records", "1000000", "--record-size", "10", "--throughput", "100")
    programs = (
        ("kafka-producer-perf-test", "sender", sending, "producer.record.send.total"),
        ("kafka-console-consumer", "reader", (), "consumer.fetch.manager.records.consumed.total"),
    )
    with ExitStack() as stack:
        for name, client_id, options, _ in programs:
            arguments = (*bootstrap, *options, "--command-property", f"client.id={client_id}")
            stack.enter_context(running(name, *arguments))
        for _, client_id, _, counter in programs:
            client = pushed(
                broker, client_id, f"org.apache.kafka.{counter}", lambda: time.sleep(0.05)
            )
            attributes = client.client
            assert attributes.client_software_name == "apache-kafka-java"
            assert attributes.client_software_version == LATEST_PATCH[DEFAULT]
            assert attributes.client_source_address == "127.0.0.1"


def test_librdkafka_pushes_its_metrics(broker: Broker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "c-client",
        "enable.metrics.push": True,
    }
    producer = Producer(settings)

    def send() -> None:
        producer.produce(_TOPIC, b"value")
        producer.poll(0.05)

    client = pushed(broker, "c-client", "org.apache.kafka.producer.request.latency.max", send)
    assert "rdkafka" in client.client.client_software_version
    assert client.find("org.apache.kafka.producer.connection.creation.total")
    assert producer.flush(10) == 0


@contextmanager
def running(name: str, *arguments: str) -> Iterator[None]:
    """Run one of Kafka's tools until the end of the block."""
    command = java_command(MAIN_CLASSES[name], *arguments)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def pushed(
    broker: Broker, client_id: str, metric: str, wait: Callable[[], object]
) -> ClientMetrics:
    """Return a client when it has pushed twice, and a metric of it is above 0."""
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        for client in broker.client_metrics(client_id):
            values = [each.value for each in client.find(metric)]
            if client.pushes > 1 and any(isinstance(v, int | float) and v > 0 for v in values):
                return client
        wait()
    raise AssertionError(f"{client_id} has not pushed {metric}: {broker.client_metrics()}")
