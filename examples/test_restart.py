"""A broker that stops and comes back at the same address, with its data."""

import socket

from confluent_kafka import Consumer, Producer

from kafkalite.testing import Broker


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_records_survive_a_restart(tmp_path):
    broker = Broker(data_directory=tmp_path, port=free_port(), topics={"orders": 1})
    with broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"two apples")
        assert producer.flush(10) == 0
    with broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        assert consumer.poll(30).value() == b"two apples"
        consumer.close()
