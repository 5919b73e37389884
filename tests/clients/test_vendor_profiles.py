"""librdkafka and Kafka's own tools with a broker that emulates a service."""

# ruff: noqa: ANN401 - confluent-kafka has no types
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.testing import Broker
from tests.clients.tools import run_tool
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.client]

TOPIC: Final = "orders"
RECORDS: Final = 20
TIMEOUT_S: Final = 30.0
UNSUPPORTED: Final = "_UNSUPPORTED_FEATURE"
SEGMENT_BYTES: Final = "26214400"


class Outcomes(NamedTuple):
    """What the clients get from one service; the names of error codes, empty for a success."""

    two_replicas: str = ""
    small_segments: str = ""
    many_partitions: str = ""
    change_of_a_topic: str = ""
    change_of_a_broker: str = ""
    lz4: str = ""
    java: str = ""
    """The beginning of Java's message about a topic with small segments."""


EXPECTED: Mapping[str, Outcomes] = {
    "msk-serverless": Outcomes(
        small_segments="POLICY_VIOLATION",
        many_partitions="POLICY_VIOLATION",
        change_of_a_topic="POLICY_VIOLATION",
        change_of_a_broker="CLUSTER_AUTHORIZATION_FAILED",
        java="Topic setting 'segment.bytes' cannot be changed.",
    ),
    "eventhubs": Outcomes(
        many_partitions="POLICY_VIOLATION",
        change_of_a_topic=UNSUPPORTED,
        change_of_a_broker=UNSUPPORTED,
        lz4="UNSUPPORTED_FOR_MESSAGE_FORMAT",
    ),
    "confluent-cloud": Outcomes(
        two_replicas="POLICY_VIOLATION",
        small_segments="POLICY_VIOLATION",
        change_of_a_broker="POLICY_VIOLATION",
        java=f"Config property 'segment.bytes' with value '{SEGMENT_BYTES}' is lower than",
    ),
    "redpanda": Outcomes(two_replicas="INVALID_REPLICATION_FACTOR"),
}


def outcome(future: Any) -> str:
    """Return the name of the error of a call, empty for a success."""
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def create(
    admin: AdminClient,
    name: str,
    partitions: int = 1,
    factor: int = -1,
    config: Mapping[str, str] | None = None,
) -> str:
    """Return the outcome of the creation of a topic."""
    topic = NewTopic(name, partitions, factor, config=dict(config or {}))
    return outcome(admin.create_topics([topic])[name])


def alter(admin: AdminClient, kind: Any, name: str, setting: str, value: str) -> str:
    """Return the outcome of the change of a setting."""
    resource = ConfigResource(kind, name)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    (future,) = admin.incremental_alter_configs([resource]).values()
    return outcome(future)


def produce(bootstrap: str, compression: str) -> str:
    """Produce records; return the name of the error, empty for a success."""
    errors: set[str] = set()

    def on_delivery(error: Any, _: object) -> None:
        errors.add("" if error is None else error.name())

    producer = Producer({
        "bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 20,
        "enable.idempotence": compression == "none",
    })  # fmt: skip
    for _ in range(RECORDS):
        producer.produce(TOPIC, b"value" * 100, on_delivery=on_delivery)
    assert producer.flush(TIMEOUT_S) == 0
    (name,) = errors
    return name


def consume(bootstrap: str) -> int:
    """Return the number of records that a group reads before a poll returns nothing."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "shop", "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.subscribe([TOPIC])
    messages = consumer.consume(RECORDS, TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    assert all(message.error() is None for message in messages)
    return len(messages)


@pytest.mark.parametrize("name", EXPECTED)
def test_librdkafka_gets_the_answers_of_the_service(name: str) -> None:
    expected = EXPECTED[name]
    with Broker(3, as_version=name, log_level="error") as broker:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        assert create(admin, TOPIC, 3) == ""
        assert create(admin, "two", factor=2) == expected.two_replicas
        small = {"segment.bytes": SEGMENT_BYTES}
        assert create(admin, "small", config=small) == expected.small_segments
        assert create(admin, "many", 200) == expected.many_partitions
        dirty_ratio = ("min.cleanable.dirty.ratio", "0.4")
        assert (
            alter(admin, ConfigResource.Type.TOPIC, TOPIC, *dirty_ratio)
            == expected.change_of_a_topic
        )
        retention = ("log.retention.ms", "3600000")
        assert (
            alter(admin, ConfigResource.Type.BROKER, "1", *retention) == expected.change_of_a_broker
        )
        assert produce(bootstrap, "none") == ""
        assert consume(bootstrap) == RECORDS
        assert produce(bootstrap, "lz4") == expected.lz4
        refused = [entry for entry in broker.explain(topic="two") if entry.kind == "refused"]
    assert bool(refused) is bool(expected.two_replicas)
    for entry in refused:
        assert entry.facts["rule"] == "vendor profile"
        assert entry.facts["profile"] == name
        assert str(entry.facts["row"]).startswith("limit replication factor: ")
        assert "https://" in str(entry.facts["source"])


def test_the_row_of_a_version_that_is_not_served_is_explained() -> None:
    with Broker(as_version="eventhubs", topics={TOPIC: 1}, log_level="error") as broker:
        client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        with pytest.raises(ConnectionClosedError):
            client.call(FetchRequest(), 12)
        client.close()
        (closed,) = broker.explain(client="127.0.0.1")
    assert 'Fetch v12 is not served: row "API Fetch: 4-6" of the profile eventhubs' in closed.text


@pytest.mark.endurance
@pytest.mark.parametrize("name", EXPECTED)
def test_java_gets_the_answers_of_the_service(name: str) -> None:
    with required():
        jar_directory()
    expected = EXPECTED[name]
    with Broker(3, as_version=name, topics={TOPIC: 3}, log_level="error") as broker:
        bootstrap = broker.bootstrap_servers
        written = run_tool(
            "kafka-producer-perf-test",
            bootstrap,
            *("--topic", TOPIC, "--num-records", f"{RECORDS}", "--record-size", "100"),
            *("--throughput", "-1"),
        )
        assert written.status == 0, written
        read = run_tool(
            "kafka-console-consumer",
            bootstrap,
            *("--topic", TOPIC, "--group", "shop", "--from-beginning"),
            *("--max-messages", f"{RECORDS}", "--timeout-ms", "30000"),
        )
        assert read.status == 0, read
        assert len(read.lines) == RECORDS
        small = ("--topic", "small", "--config", f"segment.bytes={SEGMENT_BYTES}")
        created = run_tool("kafka-topics", bootstrap, "--create", *small)
    assert created.status == (1 if expected.java else 0), created
    assert expected.java in created.stdout
