"""KIP-232: a consumer continues at its old offset in another topic of the same name."""

from confluent_kafka import Consumer

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "exposed"}


def test_a_consumer_skips_the_first_records_of_the_next_topic():
    with Broker(topics={"orders": 1}) as broker:
        for fruit in ("apples", "pears"):
            broker.produce("orders", fruit)
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "shop",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        assert len(consumer.consume(2, 30)) == 2
        with broker.faults.add(api="Fetch", hold=True):  # it notices nothing in between
            broker.delete_topic("orders")
            broker.create_topic("orders")
            for fruit in ("plums", "figs", "melons"):
                broker.produce("orders", fruit)
        assert consumer.poll(30).value() == b"melons"
        consumer.close()
