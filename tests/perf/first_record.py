"""How long a consumer waits: from its first word to the group until its first record."""

from __future__ import annotations

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer

_TIMEOUT_S = 60.0


def wait_for_first_record(port: int, topic: str, protocol: str, group: str) -> float:
    """Subscribe and wait; the time runs from the join to the record.

    librdkafka says nothing of when it joins, so it first learns the brokers and the coordinator
    of another group; what is left is the group protocol and one fetch.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.list_topics(topic, _TIMEOUT_S)
    begin = time.perf_counter()
    consumer.subscribe([topic])
    message = consumer.poll(_TIMEOUT_S)
    taken = time.perf_counter() - begin
    assert message is not None
    assert message.error() is None, message.error()
    consumer.close()
    return taken


def fill(port: int, topic: str) -> None:
    """Produce the record that will be waited for."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    producer.list_topics(topic, _TIMEOUT_S)
    producer.produce(topic, b"first", partition=0)
    assert not producer.flush(_TIMEOUT_S)


def measure(port: int, topic: str, protocol: str, group: str) -> float:
    """Wait for a first record in a process of its own; gives the seconds."""
    command = [sys.executable, "-m", __name__, str(port), topic, protocol, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    _port, _topic, _protocol, _group = sys.argv[1:]
    sys.stdout.write(f"{wait_for_first_record(int(_port), _topic, _protocol, _group)}\n")
