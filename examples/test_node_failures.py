"""Nodes that fail under a client: a new leader, a lagging replica, and lost records."""

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker

CONFIG = {"default.replication.factor": 3}


def test_producer_and_consumer_continue_when_the_leader_stops():
    with Broker(brokers=3, topics={"orders": 1}, config=CONFIG) as broker:
        broker.move_leader("orders", 0, 1)
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(settings)
        consumer = Consumer({**settings, "group.id": "shop"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        producer.produce("orders", b"two apples")
        assert producer.flush(30) == 0

        broker.nodes[1].stop()

        producer.produce("orders", b"a pear")
        assert producer.flush(30) == 0
        received = [message.value() for message in consumer.consume(2, 30)]
        assert received == [b"two apples", b"a pear"]
        consumer.close()


def test_record_is_acknowledged_when_the_lagging_replica_leaves_the_isr():
    # The replica leaves after replica.lag.time.max.ms, 30 seconds of the broker's clock.
    with Broker(brokers=3, topics={"orders": 1}, config=CONFIG, clock="accelerated:60") as broker:
        broker.move_leader("orders", 0, 1)
        broker.nodes[2].pause_replication()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"two apples")
        assert producer.flush(30) == 0
        partition = producer.list_topics("orders", 30).topics["orders"].partitions[0]
        assert sorted(partition.isrs) == [1, 3]


def test_records_are_lost_in_an_unclean_election():
    with Broker(brokers=3, topics={"orders": 1}, config=CONFIG) as broker:
        broker.move_leader("orders", 0, 1)
        for node in (2, 3):
            broker.nodes[node].pause_replication()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 1})
        producer.produce("orders", b"two apples")
        assert producer.flush(30) == 0

        moved = broker.move_leader("orders", 0, 2, unclean=True)

        assert (moved.leader, moved.truncated_records) == (2, 1)
