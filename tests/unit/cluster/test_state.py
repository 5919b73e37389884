"""The state of a cluster, from which it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer

from kafkalite.cluster.node import NodeState
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

NOW = "manual@2026-03-01T12:00:00Z"
NOW_MS = 1_772_366_400_000


def test_a_stopped_node_and_its_lagging_replica_are_restored() -> None:
    with Broker(brokers=3, storage="memory", config={"default.replication.factor": 3}) as broker:
        broker.create_topic("orders")
        broker.produce("orders", "first")
        last = broker.topic("orders").partitions[0].replicas[-1]
        broker.nodes[last].stop()
        broker.produce("orders", "second")
        snapshot = broker.snapshot()
        isr = broker.topic("orders").partitions[0].isr
        assert last not in isr
        broker.nodes[last].start()
        assert len(broker.topic("orders").partitions[0].isr) == 3
        for _ in range(2):
            broker.restore(snapshot)
            assert broker.nodes[last].state == NodeState.STOPPED.value
            assert broker.topic("orders").partitions[0].isr == isr
            (replica,) = snapshot.cluster.lagging_replicas
            assert (replica.node_id, replica.replica_end) == (last, 1)
        broker.nodes[last].start()
        assert len(broker.topic("orders").partitions[0].isr) == 3
        assert [each.value for each in broker.records("orders")] == [b"first", b"second"]


def test_records_above_the_high_watermark_remain_uncommitted(tmp_path: Path) -> None:
    config: dict[str, str | float] = {
        "default.replication.factor": 2,
        "min.insync.replicas": 2,
    }
    with Broker(2, {"orders": 1}, config, storage="memory") as broker:
        broker.produce("orders", "committed")
        leader = broker.topic("orders").partitions[0].leader
        broker.nodes[3 - leader].stop()
        produce(broker, "orders", b"uncommitted")
        assert end_offsets(broker) == (1, 2)
        snapshot = broker.snapshot()
        snapshot.save(tmp_path / "s.zip")
        for each in (snapshot, broker.load_snapshot(tmp_path / "s.zip")):
            broker.nodes[3 - leader].start()
            assert end_offsets(broker) == (2, 2)
            broker.restore(each)
            assert end_offsets(broker) == (1, 2)


def test_nodes_that_receive_no_records_or_metadata_are_restored(tmp_path: Path) -> None:
    config: dict[str, str | float] = {"default.replication.factor": 2}
    with Broker(2, {"orders": 1}, config, storage="memory") as broker:
        follower = broker.nodes[3 - broker.topic("orders").partitions[0].leader]
        follower.pause_replication()
        follower.freeze_metadata()
        produce(broker, "orders", b"a")
        broker.create_topic("later")
        assert end_offsets(broker) == (0, 1)
        snapshot = broker.snapshot()
        snapshot.save(tmp_path / "s.zip")
        for each in (snapshot, broker.load_snapshot(tmp_path / "s.zip")):
            follower.thaw_metadata()
            follower.resume_replication()
            assert end_offsets(broker) == (1, 1)
            assert knows(broker, follower.id, "later")
            broker.restore(each)
            assert end_offsets(broker) == (0, 1)
            assert not knows(broker, follower.id, "later")
        follower.thaw_metadata()
        follower.resume_replication()
        assert knows(broker, follower.id, "later")
        assert end_offsets(broker) == (1, 1)


def knows(broker: Broker, node_id: int, topic: str) -> bool:
    """Return whether a topic is in the metadata that a node knows."""
    cluster = broker._running_broker().cluster
    assert cluster is not None
    return topic in cluster.nodes[node_id].image.topics


def end_offsets(broker: Broker) -> tuple[int, int]:
    """Return the high watermark and the end of the log of partition 0 of `orders`."""
    cluster = broker._running_broker().cluster
    assert cluster is not None
    topic = cluster.partitions.topic("orders")
    assert topic is not None
    partition = topic.partitions[0]
    return partition.high_watermark, partition.end_offset


def produce(broker: Broker, topic: str, value: bytes) -> None:
    """Append a record with acks=1, which needs no replica in sync."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 1})
    producer.produce(topic, value)
    assert producer.flush(10) == 0


def produce_to(broker: Broker, node_id: int, value: bytes) -> object:
    """Append a record at a node that leads as far as it knows; return the offset, or the error."""
    address = broker.bootstrap_servers.split(",")[node_id - 1]
    producer = Producer({"bootstrap.servers": address, "acks": 1})
    offsets: list[object] = []
    producer.produce(
        "orders",
        value,
        timestamp=NOW_MS,
        on_delivery=lambda error, each: offsets.append(error or each.offset()),
    )
    assert producer.flush(10) == 0
    return offsets[0]


def test_nodes_that_run_in_the_snapshot_run_again() -> None:
    with Broker(brokers=2, storage="memory", topics={"orders": 2}) as broker:
        snapshot = broker.snapshot()
        broker.nodes[2].stop()
        broker.restore(snapshot)
        assert broker.nodes[2].state == NodeState.RUNNING.value
        broker.produce("orders", "a", partition=1)
        added = broker.nodes.add()
        broker.restore(snapshot)
        assert added.id not in list(broker.nodes)
        assert len(broker.records("orders")) == 0


def test_an_isolated_node_that_leads_on_is_restored(tmp_path: Path) -> None:
    config: dict[str, str | float] = {"default.replication.factor": 3}
    with Broker(3, {"orders": 1}, config, storage="memory", clock=NOW) as broker:
        broker.produce("orders", "common")
        (partition,) = broker.topic("orders").partitions
        leader = partition.leader
        broker.nodes[leader].isolate()
        broker.clock.advance(seconds=60)
        assert broker.topic("orders").partitions[0].leader != leader
        assert produce_to(broker, leader, b"lost") == 1
        assert produce_to(broker, broker.topic("orders").partitions[0].leader, b"new") == 1
        snapshot = broker.snapshot()
        snapshot.save(tmp_path / "s.zip")
        for each in (snapshot, broker.load_snapshot(tmp_path / "s.zip")):
            broker.nodes[leader].start()
            broker.restore(each)
            assert broker.nodes[leader].state == NodeState.ISOLATED.value
            assert [view.former_leader for view in each.cluster.lagging_replicas] != [None]
            assert produce_to(broker, leader, b"lost, too") == 2
            with broker.fork(each) as fork:
                assert produce_to(fork, leader, b"lost, too") == 2
                fork.nodes[leader].start()
                assert [each.value for each in fork.records("orders")] == [b"common", b"new"]
        broker.nodes[leader].start()
        assert [each.value for each in broker.records("orders")] == [b"common", b"new"]


def test_the_session_of_an_isolated_node_ends_after_a_restore() -> None:
    with Broker(2, {"orders": 1}, storage="memory", clock=NOW) as broker:
        broker.nodes[2].isolate()
        snapshot = broker.snapshot()
        broker.nodes[2].start()
        broker.restore(snapshot)
        image = snapshot.cluster.image
        assert not image.brokers[2].is_fenced
        broker.clock.advance(seconds=60)
        broker.nodes[2].start()
        assert broker.snapshot().cluster.image.version > image.version
