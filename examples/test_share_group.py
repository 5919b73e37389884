"""A share group delivers a released record again (KIP-932)."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kafkalite.testing import Broker

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this release of librdkafka has no share consumer", allow_module_level=True)


def start_at_the_beginning(broker, group):
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def next_message(consumer):
    for _ in range(100):
        for message in consumer.poll(0.3):
            return message
    raise AssertionError("no message")


def test_released_record_is_delivered_again():
    with Broker(topics={"jobs": 1}) as broker:
        start_at_the_beginning(broker, "workers")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("jobs", b"resize picture")
        assert producer.flush(10) == 0

        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "workers",
            "share.acknowledgement.mode": "explicit",
        }
        consumer = confluent_kafka.ShareConsumer(settings)
        consumer.subscribe(["jobs"])
        first = next_message(consumer)
        consumer.acknowledge(first, confluent_kafka.AcknowledgeType.RELEASE)
        consumer.commit_sync()
        second = next_message(consumer)
        assert (second.value(), second.offset()) == (first.value(), first.offset())
        consumer.acknowledge(second, confluent_kafka.AcknowledgeType.ACCEPT)
        consumer.commit_sync()
        consumer.close()
