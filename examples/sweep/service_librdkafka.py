"""A service that writes a bill for each order, with librdkafka.

It ends when it has read all orders. After an error it begins again, as a supervisor of processes
would let it. With the argument `--commit-first` it has a fault: it commits the offset of an order
before it writes the bill, so an error between the two loses the bill.

    kafkalite sweep --state examples/sweep/shop.yaml \
        --check 'python examples/sweep/check_bills.py' \
        -- python examples/sweep/service_librdkafka.py --commit-first
"""

from __future__ import annotations

import os
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

MAX_STARTS = 5
SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
# The service does not wait longer for an answer, and does not try again by itself.
PRODUCER = {**SERVERS, "retries": 0, "request.timeout.ms": 5000, "message.timeout.ms": 10_000}
CONSUMER = {
    **SERVERS,
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
}


def write_bill(producer: Producer, order: Message) -> None:
    """Write the bill of an order; raises KafkaException if it is not acknowledged."""
    errors = []
    producer.produce(
        "bills",
        b"bill of " + (order.value() or b""),
        on_delivery=lambda error, _: errors.append(error),
    )
    if producer.flush(15) or errors[0] is not None:
        raise KafkaException(errors[0] if errors else "the bill was not written in time")


def has_read_all(consumer: Consumer) -> bool:
    """Return whether the committed offset is the end of the topic."""
    partition = TopicPartition("orders", 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=10)
    (committed,) = consumer.committed([partition], timeout=10)
    return committed.offset == end


def bill_orders(*, commits_first: bool) -> None:
    """Write bills until there is no further order."""
    producer = Producer(PRODUCER)
    consumer = Consumer(CONSUMER)
    consumer.subscribe(["orders"])
    try:
        while not has_read_all(consumer):
            order = consumer.poll(5)
            if order is None:
                raise KafkaException("no order has arrived")
            if order.error():
                raise KafkaException(order.error())
            if commits_first:
                consumer.commit(order, asynchronous=False)
            write_bill(producer, order)
            if not commits_first:
                consumer.commit(order, asynchronous=False)
    finally:
        consumer.close()


def main() -> None:
    """Run the service, and begin again after an error, at most five times."""
    for _ in range(MAX_STARTS):
        try:
            bill_orders(commits_first="--commit-first" in sys.argv)
        except KafkaException as error:
            print("the service starts again:", error)
        else:
            return
    sys.exit("the service gives up")


if __name__ == "__main__":
    main()
