"""The session of a consumer that stopped expires, without waiting for it."""

from confluent_kafka import Consumer

from kafkalite.testing import Broker

TRANSPORT = {"connections.max.idle.ms": -1}  # a jump must not close connections as idle


def test_silent_member_is_removed():
    with Broker(topics={"orders": 1}, config=TRANSPORT, clock="manual") as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)

        broker.clock.advance(minutes=1)  # the session timeout is 45 seconds

        kinds = [entry.kind for entry in broker.explain("shop")]
        assert "expired" in kinds
        consumer.close()
