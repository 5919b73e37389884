"""Several clusters in one process: names, memory and limits."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.commands.clusters import ForkCluster, ListClusters
from kafkalite.control.commands.snapshots import CreateSnapshot
from kafkalite.control.served_broker import ServedBroker
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("name", ["", "A", "a_b", "a.b", "-a", "a-", "a" * 64, "c7", "ä", "a/b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with Broker(storage="memory") as broker:
        with pytest.raises(ValueError, match="the name"):
            broker.cluster(name)
        assert broker._perform(ListClusters()).clusters == ()


def test_a_named_cluster_begins_as_the_broker_began() -> None:
    with Broker(
        storage="memory", topics={"orders": 2}, brokers=2, clock="manual@2026-01-01"
    ) as broker:
        broker.produce("orders", "a")
        broker.create_topic("later")
        broker.clock.advance(hours=1)
        with broker.cluster("w1") as own:
            assert own.topics() == ["orders"]
            assert own.records("orders") == []
            assert own.clock.now_ms() == broker.clock.now_ms()
            assert len(own.nodes) == 2
            own.produce("orders", "b")
            assert [each.value for each in broker.cluster("w1").records("orders")] == [b"b"]
            assert broker.topics() == ["later", "orders"]
            assert own.cluster_id != broker.cluster_id
        assert broker.cluster("w1").records("orders") == []


def test_clusters_of_a_broker_on_disk_are_in_memory() -> None:
    with Broker(topics={"orders": 1}) as broker:
        own = broker.cluster("w1")
        own.produce("orders", "a")
        assert (len(own.records("orders")), broker.records("orders")) == (1, [])
        with pytest.raises(RuntimeError, match="in memory"):
            _ = own.data_directory
    with pytest.raises(RuntimeError):
        own.topics()


def fill(broker: Broker) -> None:
    for _ in range(10):
        broker.produce("orders", bytes(1_000_000))


def test_a_cluster_has_a_memory_limit_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    def perform(**fields: Any) -> Any:  # noqa: ANN401 - of the command
        return broker._perform(ForkCluster(**fields))

    with Broker(storage="memory", topics={"orders": 1}, memory_limit="8m") as broker:
        broker.produce("orders", bytes(1_000_000))
        broker._perform(CreateSnapshot())
        perform(name="small", snapshot_id="s1", memory_limit="1m")
        perform(name="free", memory_limit="8m")
        small, free = broker.cluster("small"), broker.cluster("free")
        small.produce("orders", bytes(900_000))
        with pytest.raises(ValueError, match="KAFKA_STORAGE_ERROR"):
            small.produce("orders", bytes(900_000))
        # The limit of the process holds for all clusters together.
        with pytest.raises(ValueError, match="KAFKA_STORAGE_ERROR"):
            fill(free)
        used = {each.id: each.memory_bytes for each in broker._perform(ListClusters()).clusters}
        assert 900_000 < used["small"] < 1_000_000
        assert used["free"] > 4_000_000
        free.stop()
        gc.collect()  # the error of the refused write refers to the data
        broker.produce("orders", bytes(1_000_000))
    logged = capfd.readouterr().err
    assert "its limit is 1 MiB (--cluster-memory-limit)" in logged
    assert "its limit is 8 MiB (--memory-limit)" in logged


def test_a_cluster_may_begin_with_the_present_state() -> None:
    with Broker(storage="memory", topics={"orders": 1}) as broker:
        broker.produce("orders", "a")
        broker._perform(ForkCluster("now", "w1"))
        assert len(broker.cluster("w1").records("orders")) == 1
        with pytest.raises(ValueError, match="there is a cluster 'w1' already"):
            broker._perform(ForkCluster(None, "w1"))
        with pytest.raises(ValueError, match="memory_limit: '3' is not a size"):
            broker._perform(ForkCluster(None, "w2", "3"))


def test_restoring_a_cluster_uses_its_own_memory() -> None:
    with Broker(storage="memory", topics={"orders": 1}, clusters="client-id") as broker:
        own = broker.cluster("w1")
        snapshot = own.snapshot()
        own.produce("orders", bytes(100_000))
        own.restore(snapshot)
        own.produce("orders", bytes(50_000))
        (status,) = broker._perform(ListClusters()).clusters
        assert status.memory_bytes > 50_000
        assert status.client_id_prefix == "w1/"
        assert own.client_config("librdkafka")["client.id"] == "w1/client"
        assert "client_id" not in broker.client_config("aiokafka")


def test_nodes_of_a_cluster_stop_alone_and_none_is_added() -> None:
    with Broker(2, storage="memory", clusters="client-id") as broker:
        own = broker.cluster("w1")
        own.nodes[2].stop()
        assert broker.nodes[2].state == "running"
        own.nodes[2].start()
        with pytest.raises(ValueError, match="the ports of another cluster"):
            own.nodes.add()
        with own.fork() as fork:
            assert fork.bootstrap_servers != own.bootstrap_servers


def test_an_unknown_way_to_name_clusters_is_refused() -> None:
    with pytest.raises(ValueError, match="clusters 'x' is not one of client-id, sni"):
        Broker(clusters="x")


def test_a_cluster_starts_for_all_its_clients_also_if_the_first_one_leaves() -> None:
    with Broker(storage="memory") as broker:
        clusters = broker._running_broker().clusters

        async def leave() -> str:
            first = asyncio.ensure_future(clusters.open("w1"))
            await asyncio.sleep(0)
            second = asyncio.ensure_future(clusters.open("w1"))
            await asyncio.sleep(0)
            first.cancel()
            opened = await asyncio.wait_for(second, 10)
            assert opened is clusters.get("w1")
            return "started"

        assert broker._run_on_loop(leave()) == "started"
        assert [each.id for each in broker._perform(ListClusters()).clusters] == ["w1"]


def test_a_cluster_that_is_stopped_at_its_start_is_an_error() -> None:
    with Broker(storage="memory") as broker:
        server = broker._running_broker()

        async def stop_at_start() -> None:
            start = asyncio.ensure_future(ForkCluster(name="w1").perform(server))
            while server.clusters.get("w1") is None:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0)
            cluster = server.clusters.forget("w1")
            with pytest.raises(ValueError, match="w1 was stopped when it had started"):
                await start
            await cluster.stop(0)

        broker._run_on_loop(stop_at_start())


def test_a_cluster_has_a_quarter_of_the_memory_by_default() -> None:
    with Broker(storage="memory", topics={"orders": 1}, memory_limit="8m") as broker:
        own = broker.cluster("w1")
        own.produce("orders", bytes(1_000_000))
        with pytest.raises(ValueError, match="KAFKA_STORAGE_ERROR"):
            fill(own)
        large = broker.cluster("w2", memory_limit="4m")
        for _ in range(3):
            large.produce("orders", bytes(1_000_000))
        with pytest.raises(ValueError, match="there is a cluster 'w2' already"):
            broker.cluster("w2", memory_limit="5m")
        with pytest.raises(ValueError, match="'x' is not a size"):
            broker.cluster("w3", memory_limit="x")


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, which takes a few turns of the event loop."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError


async def test_a_cluster_without_connections_is_stopped() -> None:
    settings = Settings(listen=["127.0.0.1:0"], is_in_memory=True, cluster_idle_timeout=60)
    served = ServedBroker(Log(Level.ERROR), None, None)
    broker = await served.start(settings, AdjustableClock(), start_recording=None, prepare=None)
    clusters = broker.clusters
    try:
        await clusters.start("used", None)
        await clusters.start("left", None)
        used = clusters.get("used")
        assert used is not None
        assert used.broker is not None
        connections = used.broker.nodes.connections
        host, port = used.broker.bootstrap_servers.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        await until(lambda: bool(list(connections())))
        assert clusters.idle_clusters(100.0, 60) == []
        assert clusters.idle_clusters(159.9, 60) == []
        assert clusters.idle_clusters(160.0, 60) == ["left"]
        clusters.check_idle(60, now_s=161.0)
        assert [each for each, _ in clusters.items()] == ["used"]
        writer.close()
        await until(lambda: not list(connections()))
        assert clusters.idle_clusters(200.0, 60) == []
        assert clusters.idle_clusters(260.0, 60) == ["used"]
    finally:
        await served.stop(grace_s=0)
