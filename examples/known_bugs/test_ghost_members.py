"""KIP-1082: the answer to a join is lost, and the retry joins as a second member."""

from confluent_kafka import Consumer

from kafkalite.testing import Broker

OUTCOMES = {"4.4": {"librdkafka": "safe"}}


def members_after_a_lost_answer(api, protocol):
    with Broker(topics={"orders": 1}) as broker:
        broker.faults.add(api=api, disconnect="after", nth=1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer({**settings, "group.protocol": protocol})
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
        broker.faults.assert_all_fired()
        count = len(broker.group("shop").members)
        consumer.close()
        return count


def test_a_member_with_an_id_of_its_own_joins_once():
    assert members_after_a_lost_answer("ConsumerGroupHeartbeat", "consumer") == 1


def test_a_member_of_a_classic_group_joins_once():
    assert members_after_a_lost_answer("JoinGroup", "classic") == 1
