"""A late OffsetCommit: a commit that its client has given up rewinds the group."""

from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "exposed"}


def test_a_late_commit_rewinds_the_group():
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
