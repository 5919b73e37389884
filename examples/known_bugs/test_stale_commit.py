"""KAFKA-19779: a commit is refused, as its member has a later epoch that it does not know yet."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker

OUTCOMES = {"4.2": {"librdkafka": "exposed"}, "4.4": {"librdkafka": "safe"}}
ERRORS = {"exposed": "STALE_MEMBER_EPOCH", "safe": None}
CONFIG = {"group.consumer.assignment.interval.ms": 0}


@pytest.mark.parametrize("release", OUTCOMES)
def test_an_asynchronous_commit_crosses_a_heartbeat(release):
    results = []
    with Broker(topics={"orders": 1, "returns": 1}, config=CONFIG, as_version=release) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        settings["on_commit"] = lambda error, _: results.append(error and error.name())
        consumer = Consumer({**settings, "group.protocol": "consumer"})
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
        lost = broker.faults.add(api="ConsumerGroupHeartbeat", lost="answer", nth=1)
        consumer.subscribe(["orders", "returns"])  # sends a heartbeat
        lost.wait()
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)])
        while not results:
            consumer.poll(0.1)
        assert results == [ERRORS[OUTCOMES[release]["librdkafka"]]]
        consumer.close()
