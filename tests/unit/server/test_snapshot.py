"""Snapshots of a broker: what they contain, and what is the same after a restore."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cluster.cluster import TopicError
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

NOW = "manual@2026-03-01T12:00:00Z"
NOW_MS = 1_772_366_400_000


def test_a_restored_broker_has_the_same_files_topics_and_groups() -> None:
    with Broker(storage="memory", topics={"orders": 2}, seed=7, clock=NOW) as broker:
        for number in range(10):
            broker.produce("orders", f"{number}", partition=number % 2)
        snapshot = broker.snapshot()
        files, topic = broker.data_files(), broker.topic("orders")
        broker.produce("orders", "later", partition=0)
        broker.create_topic("new")
        broker.delete_topic("orders")
        for _ in range(2):
            broker.restore(snapshot)
            assert broker.data_files() == files
            assert broker.topic("orders") == topic
            assert broker.topics() == ["orders"]
            assert [each.value for each in broker.records("orders", partition=1)] == [
                b"1", b"3", b"5", b"7", b"9"
            ]  # fmt: skip


def test_a_node_that_was_stopped_can_be_started_in_a_fork() -> None:
    with Broker(2, {"orders": 1}, storage="memory") as broker:
        broker.nodes[2].stop()
        with broker.fork() as fork:
            host, port = fork.bootstrap_servers.split(",")[1].split(":")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)))
            fork.nodes[2].start()
            socket.create_connection((host, int(port))).close()


def directories_of(broker: Broker) -> dict[str, list[str]]:
    """Return the directory of each partition by topic."""
    cluster = broker._running_broker().cluster
    assert cluster is not None
    return {
        name: [cluster.log_directories.path_of(1, each) for each in topic.partitions]
        for name, topic in cluster.metadata.image.topics.items()
    }


def test_replicas_are_in_the_same_log_directories() -> None:
    config = {"log.dirs": "/a,/b", "cordoned.log.dirs": "/b"}
    with Broker(storage="memory", config=config, topics={"orders": 2}) as broker:
        snapshot, before = broker.snapshot(), directories_of(broker)
        assert before == {"orders": ["/a", "/a"]}
        broker.create_topic("new")
        broker.restore(snapshot)
        assert directories_of(broker) == before
        with broker.fork() as fork:
            fork.create_topic("new")
            assert directories_of(fork) == {**before, "new": ["/a"]}


def rules_of(broker: Broker) -> list[tuple[str, object]]:
    faults = [(each.id, each.rule) for each in broker.faults.list()]
    return [*faults, *((each.id, each.rule) for each in broker.links.list())]


def test_clock_random_values_faults_links_and_history_are_restored() -> None:
    with Broker(storage="memory", seed=7, clock=NOW) as broker:
        broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS", times=2)
        broker.links.cut(client_id="shop")
        broker.create_topic("a")
        snapshot = broker.snapshot()
        time, rules = broker.clock.now(), rules_of(broker)
        history = [each._replace(number=0) for each in broker.explain()]
        topic_ids = []
        for _ in range(2):
            topic_ids.append(broker.create_topic("next").topic_id)
            broker.clock.advance(minutes=5)
            broker.faults.clear()
            broker.links.heal()
            broker.restore(snapshot)
            assert broker.clock.now() == time
            assert rules_of(broker) == rules
            assert [each._replace(number=0) for each in broker.explain()] == history
        assert topic_ids[0] == topic_ids[1]


def test_timers_keep_their_distance_when_the_clock_goes_back() -> None:
    with Broker(storage="memory", clock=NOW, topics={"orders": 1}) as broker:
        snapshot, start_ms = broker.snapshot(), broker.clock.now_ms()
        broker.clock.advance(hours=5)
        broker.restore(snapshot)
        broker.clock.advance(minutes=10)
        broker.produce("orders", "a")
        (record,) = broker.records("orders")
        assert record.timestamp_ms - start_ms == 600_000


def content_of(broker: Broker) -> list[tuple[str, int, int, bytes | None]]:
    return [
        (topic, each.partition, each.offset, each.value)
        for topic in broker.topics()
        for each in broker.records(topic)
    ]


def test_data_on_disk_is_copied_to_memory(tmp_path: Path) -> None:
    config = {"log.segment.bytes": 1 << 20}
    with Broker(2, {"orders": 2}, config, data_directory=tmp_path, seed=7) as broker:
        for number in range(6):
            broker.produce("orders", f"{number}" * 400_000, partition=number % 2)
        broker.create_topic("empty")
        (tmp_path / "notes.txt").write_text("not of the cluster")
        content, topics = content_of(broker), broker.topics()
        snapshot = broker.snapshot()
        broker.produce("orders", "later")
        with broker.fork(snapshot) as fork:
            assert fork._running_broker().is_in_memory
            assert (content_of(fork), fork.topics()) == (content, topics)
            assert "notes.txt" not in fork.data_files()
            fork.produce("orders", "in the fork")
            with fork.fork() as second:
                assert content_of(second) == content_of(fork) != content
        assert len(content_of(broker)) == len(content) + 1
        content = content_of(broker)
    with Broker(2, data_directory=tmp_path) as broker:
        assert content_of(broker) == content


def test_a_broker_with_data_on_disk_is_not_restored(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path) as broker:
        snapshot = broker.snapshot()
        with pytest.raises(ValueError, match=f"is in the directory {tmp_path}, which is not repl"):
            broker.restore(snapshot)
        broker.create_topic("orders")


def test_data_on_disk_that_is_larger_than_the_memory_is_refused() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "x" * 1_000_000)
        memory = broker._running_broker().memory
        memory.limit_bytes = 1 << 19
        with pytest.raises(ValueError, match=r"the data on disk has 0 MiB, but a snapshot is in m"):
            broker.snapshot()
        assert memory.used_bytes == 0


def test_a_snapshot_of_another_cluster_is_refused() -> None:
    with Broker(storage="memory") as one, Broker(storage="memory") as two:
        snapshot = one.snapshot()
        with pytest.raises(ValueError, match=f"of the cluster {one.cluster_id}, not of"):
            two.restore(snapshot)
        assert two.topics() == []


def test_data_is_shared() -> None:
    with Broker(storage="memory", topics={"orders": 1}, memory_limit="4m") as broker:
        broker.produce("orders", bytes(900_000))
        broker.produce("orders", bytes(900_000))
        snapshots = [broker.snapshot() for _ in range(20)]
        broker.produce("orders", bytes(900_000))
        broker.restore(snapshots[0])
        assert [len(each.value or b"") for each in broker.records("orders")] == [900_000] * 2


def test_what_a_restore_discards_frees_its_memory() -> None:
    with Broker(storage="memory", topics={"orders": 1}, memory_limit="3m") as broker:
        snapshot = broker.snapshot()
        for _ in range(10):
            broker.produce("orders", bytes(900_000))
            with broker.fork() as fork:
                fork.produce("orders", bytes(900_000))
            broker.restore(snapshot)


def test_a_broker_begins_with_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    with Broker(
        2, {"orders": 1}, storage="memory", seed=7, clock=NOW, pace="kafka", keep_history=True
    ) as broker:
        broker.produce("orders", "apples")
        snapshot = broker.snapshot()
    snapshot.save(path)
    for given in (snapshot, path):
        broker = Broker(snapshot=given, topics={"orders": 1, "more": 2})
        for _ in range(2):
            with broker:
                assert broker.topics() == ["more", "orders"]
                assert [each.value for each in broker.records("orders")] == [b"apples"]
                assert broker.clock.now_ms() == NOW_MS
                assert list(broker.nodes) == [1, 2]
                settings = broker._running_broker().settings
                assert (settings.seed, settings.pace, settings.keeps_history) == (7, "kafka", True)
                broker.produce("orders", "pears")


def test_a_reset_leads_to_the_topics_of_the_broker_that_made_the_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    with Broker(storage="memory", topics={"orders": 2}) as broker:
        broker.create_topic("later")
        snapshot = broker.snapshot()
    with Broker(snapshot=snapshot, topics={"more": 1}) as second:
        second.produce("orders", "a")
        second.snapshot().save(path)
    with Broker(snapshot=path) as third:
        assert third.topics() == ["later", "more", "orders"]
        third.reset()
        assert third.topics() == ["more", "orders"]
        assert len(third.topic("orders").partitions) == 2
        assert third.records("orders") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"brokers": 3}, "--brokers 3 is not that of the snapshot, which has 1: leave the option"),
        ({"as_version": "3.9"}, "--as-version 3.9 is not that of the snapshot, which has none"),
        ({"data_directory": "/tmp/x"}, "the data of a broker that begins with a snapshot is in"),  # noqa: S108 - not created
        ({"state": {}}, "a broker begins with a snapshot or a state: use --snapshot or --state"),
        ({"storage": "disk"}, "snapshot and storage='disk' cannot be combined"),
        ({"topics": {"orders": 3}}, "topic orders exists with 1 partition, not with 3"),
    ],
)
def test_arguments_that_a_snapshot_contradicts_are_refused(
    arguments: dict[str, Any], text: str
) -> None:
    with Broker(storage="memory", topics={"orders": 1}) as broker:
        snapshot = broker.snapshot()
    with pytest.raises((ValueError, TopicError), match=f"^{re.escape(text)}"):
        Broker(snapshot=snapshot, **arguments).start()


def test_the_memory_limit_is_that_of_the_broker() -> None:
    with Broker(storage="memory", topics={"orders": 1}) as broker:
        snapshot = broker.snapshot()
    with Broker(snapshot=snapshot, storage="memory", memory_limit="1m") as broker:
        assert broker._running_broker().memory.limit_bytes == 1 << 20
