"""KAFKA-17754: a late EndTxn commits the next transaction of its producer."""

import pytest
from confluent_kafka import KafkaException, Producer

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "exposed"}


def test_a_late_end_of_a_transaction_ends_the_next_one():
    """The epoch of this client does not change with each transaction."""
    with Broker(topics={"orders": 1}) as broker:
        ghost = broker.faults.add(api="EndTxn", nth=1, hold=True, late=True, disconnect=True)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"}
        producer = Producer(settings)
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
