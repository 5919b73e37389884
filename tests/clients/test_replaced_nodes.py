"""librdkafka while all nodes of a cluster are replaced, one after the other: it loses nothing."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.clients.observer import wait_until
from tests.clients.readers import read_by_librdkafka
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from typing import Self

    from confluent_kafka import KafkaError, Message

    from kafkalite.testing.nodes import BrokerNode

pytestmark = pytest.mark.client

_TOPIC = "orders"
_PARTITIONS = 3
_NODES = 3
_TIMEOUT_S = 30.0
_RECORDS_PER_STEP = 50
CONFIG: dict[str, str | float] = {
    "default.replication.factor": _NODES,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
}


class Writer:
    """A thread that produces increasing numbers to each partition in turn, with acks=all."""

    def __init__(self, broker: Broker) -> None:
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
        )
        self._must_stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: defaultdict[int, list[str]] = defaultdict(list)
        self.errors: list[KafkaError] = []
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._must_stop.set()
        self._thread.join()
        assert self._producer.flush(_TIMEOUT_S) == 0

    def _write(self) -> None:
        number = 0
        while not self._must_stop.is_set():
            self._producer.produce(
                _TOPIC, str(number), partition=number % _PARTITIONS, on_delivery=self._on_delivery
            )
            number += 1
            self._producer.poll(0.001)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].append(value.decode())
        self.count += 1

    def wait_for_more(self) -> None:
        """Wait until some more records are acknowledged."""
        target = self.count + _RECORDS_PER_STEP
        wait_until(lambda: self.count >= target, "more records to be acknowledged")


def replace(old: BrokerNode, new: BrokerNode) -> None:
    """Move all replicas of a node to another one, then remove the node."""
    client = RawClient(int(new.bootstrap_servers.rpartition(":")[2]))
    topics = [
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=topic.name,
            partitions=[
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=partition.partition_index,
                    replicas=[
                        new.id if node_id == old.id else node_id
                        for node_id in partition.replica_nodes
                    ],
                )
                for partition in topic.partitions
            ],
        )
        for topic in client.call(MetadataRequest(topics=None), 12).topics
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
    answer = client.call(request, 0)
    client.close()
    codes = {row.error_code for topic in answer.responses for row in topic.partitions}
    assert codes == {ErrorCode.NONE}
    old.stop(controlled=True)
    assert old.led_partitions == 0
    old.remove()


def test_no_record_is_lost_or_repeated_while_all_nodes_are_replaced() -> None:
    with Broker(
        brokers=_NODES, topics={_TOPIC: _PARTITIONS}, config=CONFIG, log_level="error"
    ) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "shop",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([_TOPIC])
        read: defaultdict[int, list[str]] = defaultdict(list)
        with Writer(broker) as writer:
            for old_id in range(1, _NODES + 1):
                writer.wait_for_more()
                _consume(consumer, read, 10)
                replace(broker.nodes[old_id], broker.nodes.add())
            writer.wait_for_more()
        assert writer.errors == []
        assert list(broker.nodes) == [4, 5, 6]
        while sum(map(len, read.values())) < writer.count:
            _consume(consumer, read, 1)
        consumer.close()
        assert read == writer.acknowledged
        rows = read_by_librdkafka(broker.bootstrap_servers, _TOPIC, _PARTITIONS)
        assert {
            partition: [value for _, value in found] for partition, found in rows.items()
        } == writer.acknowledged


def _consume(consumer: Consumer, read: defaultdict[int, list[str]], count: int) -> None:
    messages = consumer.consume(count, _TIMEOUT_S)
    assert messages
    for message in messages:
        assert message.error() is None, message.error()
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        read[partition].append(value.decode())
