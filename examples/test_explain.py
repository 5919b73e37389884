"""The broker gives the reason for a refused commit."""

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafkalite.testing import Broker


def test_refused_commit_has_a_reason():
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        member = Consumer(settings)
        member.subscribe(["orders"])
        while not member.assignment():
            member.poll(0.1)

        outsider = Consumer(settings)  # it commits without joining the group
        with pytest.raises(KafkaException):
            outsider.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)

        for entry in broker.explain("shop"):
            print(entry.kind, entry.text)
        assert "refused" in [entry.kind for entry in broker.explain("shop")]
        member.close()
        outsider.close()
