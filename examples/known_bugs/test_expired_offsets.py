"""KIP-211: a group was away for longer than its offsets, and skips what was written meanwhile."""

from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "exposed"}


def test_a_group_that_comes_back_late_skips_records():
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
        broker.produce("orders", "apples")
        broker.clock.advance(days=8)  # offsets.retention.minutes is seven days

        consumer = Consumer(settings)  # auto.offset.reset is latest
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert consumer.poll(0.5) is None
        assert broker.committed("shop") == {}
        consumer.close()
