"""The same test under each rule of offset-commit fencing (KIP-1251, KAFKA-19779)."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kafkalite.testing import Broker

RULES = ["strict", "revocation-epoch", "assignment-epoch"]


def new_member(broker):
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "shop",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    return consumer


@pytest.mark.parametrize("rule", RULES)
def test_commits_during_a_rebalance(rule):
    config = {"group.consumer.offset.commit.fencing": rule}
    with Broker(topics={"orders": 4}, config=config) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(40):
            producer.produce("orders", f"{number}".encode())
        assert producer.flush(10) == 0

        members = [new_member(broker)]
        consumed, refusals = 0, set()
        while consumed < 40:
            message = members[0].poll(30)
            assert message is not None
            consumed += 1
            if consumed == 10:
                members.append(new_member(broker))  # starts a rebalance
                members[1].poll(0)
            try:
                members[0].commit(message, asynchronous=False)
            except KafkaException as error:  # the member can retry with its new epoch
                refusals.add(error.args[0].name())
            if any(member.assignment() for member in members[1:]):
                break
        assert refusals <= (set() if rule == "assignment-epoch" else {"STALE_MEMBER_EPOCH"})
        for member in members:
            member.close()
