"""KIP-320: a log is truncated, and other records get the offsets that a consumer has read."""

from confluent_kafka import Consumer

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "safe"}

CONFIG = {"default.replication.factor": 2}


def test_a_consumer_that_knows_the_leader_epoch_reads_the_other_records():
    with Broker(brokers=2, topics={"orders": 1}, config=CONFIG) as broker:
        broker.move_leader("orders", 0, 1)
        broker.nodes[2].pause_replication()
        for fruit in ("apples", "pears"):
            broker.produce("orders", fruit)
        broker.clock.advance(minutes=1)  # node 2 leaves the ISR
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert [each.value() for each in consumer.consume(2, 30)] == [b"apples", b"pears"]
        broker.move_leader("orders", 0, 2, unclean=True)
        for fruit in ("plums", "figs", "melons"):
            broker.produce("orders", fruit)
        assert consumer.poll(30).value() == b"plums"
        consumer.close()
