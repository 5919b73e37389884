"""Committed offsets of a group without members expire (KIP-211)."""

from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker


def test_offsets_expire_after_one_hour():
    config = {"offsets.retention.minutes": 60}
    with Broker(topics={"orders": 1}, config=config) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        partition = TopicPartition("orders", 0, 42)
        consumer.commit(offsets=[partition], asynchronous=False)

        broker.clock.advance(minutes=59)
        assert consumer.committed([partition], timeout=10)[0].offset == 42

        broker.clock.advance(minutes=11)  # the broker checks every ten minutes
        assert consumer.committed([partition], timeout=10)[0].offset < 0
        consumer.close()
