"""A stale epoch: a member whose OffsetFetch is refused resets its position."""

from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker

OUTCOMES = {"4.4": {"librdkafka": "safe"}}


def test_a_refused_offset_fetch_does_not_reset_the_position():
    with Broker(topics={"orders": 1}) as broker:
        for fruit in ("apples", "pears", "plums"):
            broker.produce("orders", fruit)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
        consumer.close()
        broker.faults.add(api="OffsetFetch", error="STALE_MEMBER_EPOCH", nth=1)
        consumer = Consumer(
            {**settings, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        assert consumer.poll(30).value() == b"plums"
        broker.faults.assert_all_fired()
        consumer.close()
