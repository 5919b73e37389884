"""A broker that starts with the topics, records and commits of a capture."""

from confluent_kafka import Consumer, Producer

from kafkalite.testing import Broker


def test_records_of_the_capture_are_consumed(tmp_path):
    with Broker(topics={"orders": 1}, capture=tmp_path) as recorded:
        producer = Producer({"bootstrap.servers": recorded.bootstrap_servers})
        producer.produce("orders", b"two apples")
        assert producer.flush(10) == 0

    with Broker(replay=tmp_path, match="seeded") as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        assert consumer.poll(30).value() == b"two apples"
        consumer.close()
