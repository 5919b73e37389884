"""The state of a cluster, from which it continues."""

from __future__ import annotations

import pytest

from kafkalite.cluster.node import NodeState
from kafkalite.testing import Broker


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


def test_a_node_with_a_state_of_its_own_prevents_a_snapshot() -> None:
    with Broker(brokers=2, storage="memory") as broker:
        broker.nodes[2].isolate()
        with pytest.raises(ValueError, match=r"^node 2 is isolated: connect it first$"):
            broker.snapshot()
