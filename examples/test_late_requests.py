"""Requests that arrive after their clients have given them up."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker


def test_late_commit_rewinds_the_group():
    with Broker(topics={"orders": 1}) as broker:
        ghost = broker.faults.add(api="OffsetCommit", nth=1, hold=True, late=True, disconnect=True)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        for offset in (3, 6):  # librdkafka sends the first commit again
            position = TopicPartition("orders", 0, offset)
            consumer.commit(offsets=[position], asynchronous=False)
        assert broker.committed("shop") == {("orders", 0): 6}
        ghost.release()
        broker.expect_commit("shop", "orders", offset=3)
        consumer.close()


def test_late_end_of_a_transaction_ends_the_next_one():
    """KAFKA-17754: a client whose epoch does not change with each transaction is exposed."""
    with Broker(topics={"orders": 1}) as broker:
        ghost = broker.faults.add(api="EndTxn", nth=1, hold=True, late=True, disconnect=True)
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "shop"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"first")
        producer.commit_transaction()  # librdkafka sends EndTxn again
        producer.begin_transaction()
        producer.produce("orders", b"second")
        producer.flush()
        assert [each.value for each in broker.records("orders")] == [b"first"]
        ghost.release()
        assert [each.value for each in broker.records("orders")] == [b"first", b"second"]
        with pytest.raises(KafkaException):
            producer.abort_transaction()  # the broker has no open transaction
