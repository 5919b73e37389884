"""Faults: an error, a delay and a lost connection."""

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker


def test_producer_retries_after_an_error():
    with Broker(topics={"orders": 1}) as broker:
        fault = broker.faults.add(
            api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=1
        )
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"two apples")
        assert producer.flush(30) == 0
        assert (fault.matches, fault.firings) == (2, 1)


def test_response_is_delayed_by_the_clock_of_the_broker():
    with Broker(topics={"orders": 1}, clock="accelerated:60") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        with broker.faults.add(api="Produce", delay_ms=10_000) as fault:
            producer.produce("orders", b"two apples")
            assert producer.flush(30) == 0
            assert fault.firings >= 1


def test_record_is_written_once_although_the_response_is_lost():
    with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        with broker.faults.add(api="Produce", disconnect="after", times=1) as fault:
            producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
            producer.produce("orders", b"two apples")
            assert producer.flush(30) == 0
            assert fault.firings == 1
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "shop"})
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=30) == (0, 1)
        consumer.close()
