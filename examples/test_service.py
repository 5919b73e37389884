"""What a service meets in production, each in one test."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker

PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def broker():
    with Broker(topics={"orders": 1}) as broker:
        yield broker


def new_producer(broker, settings=()):
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **dict(settings)})


def new_consumer(broker, settings=()):
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dict(settings),
        }
    )


def read(consumer, count):
    records = []
    while len(records) < count:
        record = consumer.poll(20)
        assert record is not None, f"{len(records)} records, not {count}"
        records.append(record)
    return records


def kinds(entries):
    return [entry.kind for entry in entries]


def test_a_refused_commit_is_retried(broker):
    refusal = broker.faults.add(
        api="OffsetCommit", group="shop", error="COORDINATOR_LOAD_IN_PROGRESS", times=1
    )
    consumer = new_consumer(broker)
    offset = TopicPartition("orders", 0, 42)
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()
    assert (refusal.firings, refusal.matches) == (1, 2)
    assert broker.committed("shop") == {("orders", 0): 42}


def test_offsets_of_an_empty_group_expire_after_a_week(broker):
    consumer = new_consumer(broker)
    consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
    consumer.close()
    broker.clock.advance(days=6, hours=23)
    assert broker.committed("shop") == {("orders", 0): 42}
    broker.clock.advance(minutes=70)  # Kafka checks every ten minutes
    broker.wait_for_group("shop", state="Dead")


def test_a_second_producer_fences_the_first(broker):
    zombie = new_producer(broker, {"transactional.id": "shop"})
    zombie.init_transactions()
    zombie.begin_transaction()
    zombie.produce("orders", "two apples")
    zombie.flush()
    new_producer(broker, {"transactional.id": "shop"}).init_transactions()
    with pytest.raises(KafkaException, match="_FENCED"):
        zombie.commit_transaction()
    assert "fenced" in kinds(broker.explain(transactional_id="shop"))
    assert broker.records("orders") == []


def test_a_poison_record_goes_to_the_dead_letters(broker):
    for value in ("2", "two apples", "3"):
        broker.produce("orders", value)
    consumer, producer = new_consumer(broker), new_producer(broker)
    consumer.subscribe(["orders"])
    apples = 0
    for record in read(consumer, 3):
        try:
            apples += int(record.value())
        except ValueError:
            producer.produce("dead-letters", record.value())
    producer.flush()
    consumer.commit(asynchronous=False)
    consumer.close()
    assert apples == 5
    assert [record.value for record in broker.records("dead-letters")] == [b"two apples"]
    assert broker.lag("shop") == {("orders", 0): 0}


def test_the_lag_is_what_the_group_has_not_read(broker):
    for value in "12345":
        broker.produce("orders", value)
    consumer = new_consumer(broker)
    consumer.subscribe(["orders"])
    *_, last = read(consumer, 2)
    consumer.commit(last, asynchronous=False)
    consumer.close()
    assert broker.lag("shop") == {("orders", 0): 3}


def test_a_group_survives_a_storm_of_rebalances(broker):
    broker.produce("orders", "two apples")
    consumer = new_consumer(broker, {"heartbeat.interval.ms": 50})
    consumer.subscribe(["orders"])
    assert read(consumer, 1)[0].value() == b"two apples"
    consumer.commit(asynchronous=False)
    with broker.faults.add(api="Heartbeat", group="shop", error="REBALANCE_IN_PROGRESS") as storm:
        while broker.group("shop").epoch < 4:
            consumer.poll(0.05)  # joins again after each heartbeat
        assert storm.firings >= 3
    broker.produce("orders", "a pear")
    assert read(consumer, 1)[0].value() == b"a pear"
    broker.wait_for_group("shop", state="Stable", members=1)
    assert "rebalance" in kinds(broker.explain("shop"))
    consumer.close()


def test_a_producer_beyond_its_quota_is_throttled():
    with Broker(topics={"orders": 1}, config={"quota.window.num": 2}) as broker:
        broker.set_quotas(client_id="reports", producer_byte_rate=10_000)
        throttles = []
        settings = {"client.id": "reports", "throttle_cb": throttles.append}
        producer = new_producer(broker, settings)
        for _ in range(3):
            producer.produce("orders", "a" * 5_000)
            producer.flush()
        assert max(event.throttle_time for event in throttles) > 0
        assert "throttled" in kinds(broker.explain(topic="orders"))


def test_records_are_compressed_and_acknowledged_by_all_replicas(broker):
    producer = new_producer(broker, {"compression.type": "gzip"})
    broker.requests.list()  # the log begins
    producer.produce("orders", "two apples" * 10)
    producer.flush()
    fields = {"acks": -1, "compression": "gzip"}
    broker.requests.expect("Produce", topic="orders", fields=fields, times=1)


def test_a_transaction_survives_a_restart_of_the_broker(broker):
    producer = new_producer(broker, {"transactional.id": "shop"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", "two apples")
    producer.flush()
    broker.nodes[1].stop()
    broker.nodes[1].start()
    (transaction,) = broker.transactions()
    assert transaction.state.label == "Ongoing"
    producer.produce("orders", "a pear")
    producer.commit_transaction()
    assert [record.value for record in broker.records("orders")] == [b"two apples", b"a pear"]


def test_an_order_is_published(broker):
    producer = new_producer(broker)
    producer.produce("orders", "two apples", key="customer-7")
    producer.flush()
    (order,) = broker.wait_for_records("orders", count=1)
    assert (order.key, order.value) == (b"customer-7", b"two apples")
