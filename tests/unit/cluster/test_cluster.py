"""Cluster: machines with their logs in one directory, the same after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.cluster import Cluster, TopicError
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing.clock import ManualClock
from tests.cluster.cluster import TestCluster
from tests.unit.open_files import new_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.partitions.partition import Partition


class Machine:
    """A disk, and a cluster that is started and stopped on it."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._clock = ManualClock()
        self._directory: DataDirectory
        self.cluster: Cluster

    def start(self, node_ids: Sequence[int] = (1,)) -> Cluster:
        self._directory = DataDirectory(new_files(self), self._path)
        self.cluster = Cluster(
            cluster_id="cluster",
            directory=self._directory,
            clock=self._clock,
            entropy=SeededEntropy(),
            config=BrokerConfig.from_text(),
            node_ids=node_ids,
        )
        return self.cluster

    def end(self) -> None:
        self.cluster.stop()
        self._directory.close(self.cluster.partitions.logs())

    def crash(self) -> None:
        self._directory.release_lock()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def partition_of(cluster: Cluster, topic: str, index: int = 0) -> Partition:
    hosted = cluster.partitions.topic(topic)
    assert hosted is not None
    partition = hosted.partition(index)
    assert partition is not None
    return partition


def test_a_checkpoint_includes_the_metadata_log(machine: Machine, tmp_path: Path) -> None:
    cluster = machine.start()
    cluster.create_missing_topics({"t": 1})
    cluster.partitions.checkpoint()
    lines = (tmp_path / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert {line.split()[0] for line in lines[2:]} == {"__cluster_metadata", "t"}


@pytest.mark.parametrize("ends", ["cleanly", "by a crash"])
def test_topics_and_records_exist_after_a_restart(machine: Machine, ends: str) -> None:
    cluster = machine.start()
    cluster.create_missing_topics({"t": 2})
    topic_id = cluster.metadata.image.topics["t"].topic_id
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    partition_of(cluster, "t", 1).append_internal(BatchView(batch), 1)
    if ends == "cleanly":
        machine.end()
    else:
        machine.crash()

    cluster = machine.start()
    assert cluster.metadata.image.topics["t"].topic_id == topic_id
    assert partition_of(cluster, "t", 0).end_offset == 0
    assert partition_of(cluster, "t", 1).end_offset == 1
    machine.end()


def test_an_existing_topic_is_not_created_again(machine: Machine) -> None:
    cluster = machine.start()
    cluster.create_missing_topics({"t": 2})
    version = cluster.metadata.image.version
    cluster.create_missing_topics({"t": 2})
    assert cluster.metadata.image.version == version
    with pytest.raises(TopicError, match="2 partitions"):
        cluster.create_missing_topics({"t": 3})
    machine.end()


@pytest.mark.parametrize("name", ["", "bad name", "a/b", "x" * 250])
def test_an_impossible_topic_is_refused(machine: Machine, name: str) -> None:
    cluster = machine.start()
    with pytest.raises(TopicError):
        cluster.create_missing_topics({name: 1})
    machine.end()


def test_every_partition_has_a_leader_after_a_restart_with_other_nodes(machine: Machine) -> None:
    cluster = machine.start(node_ids=(1, 2, 3))
    cluster.create_missing_topics({"t": 6})
    leaders = {each.leader for each in cluster.metadata.image.topics["t"].partitions}
    assert leaders == {1, 2, 3}
    machine.end()
    cluster = machine.start(node_ids=(1,))
    leaders = {each.leader for each in cluster.metadata.image.topics["t"].partitions}
    assert leaders == {1}
    assert partition_of(cluster, "t", 5).leader == 1
    machine.end()


def test_group_shards_are_loaded_with_their_topic_and_after_a_restart(machine: Machine) -> None:
    cluster = machine.start()
    assert list(cluster.groups.shards()) == []
    (made,) = cluster.metadata.create_topics(
        [NewTopic(name=OFFSETS_TOPIC, partitions=5, replication_factor=1)]
    )
    assert made.error is None
    assert len(cluster.groups.shards()) == 5
    machine.end()
    cluster = machine.start()
    assert len(cluster.groups.shards()) == 5
    machine.end()


def test_a_deleted_topic_is_removed_from_disk(machine: Machine, tmp_path: Path) -> None:
    cluster = machine.start()
    cluster.create_missing_topics({"t": 1})
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    partition_of(cluster, "t").append_internal(BatchView(batch), 1)
    assert (tmp_path / "t-0").is_dir()
    cluster.metadata.delete_topics([cluster.metadata.image.topics["t"].topic_id])
    assert cluster.partitions.topic("t") is None
    assert not (tmp_path / "t-0").exists()
    machine.end()
    machine.start()
    assert not list(tmp_path.glob("t-*"))


def test_topic_settings_reach_the_log(machine: Machine) -> None:
    cluster = machine.start()
    (made,) = cluster.metadata.create_topics(
        [
            NewTopic(
                name="t", partitions=1, replication_factor=1, configs={"segment.bytes": "1048576"}
            )
        ]
    )
    assert made.error is None
    assert partition_of(cluster, "t").log.config.segment_bytes == 1_048_576
    machine.end()


def test_producer_ids_are_allocated_to_a_node_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_ids: list[int] = []
    allocate = MetadataController.allocate_producer_ids

    def observe(self: MetadataController, node_id: int) -> tuple[int, int]:
        node_ids.append(node_id)
        return allocate(self, node_id)

    monkeypatch.setattr(MetadataController, "allocate_producer_ids", observe)
    wire = TestCluster(tmp_path, nodes=2)
    wire.cluster.node_control.shut_down(1)
    wire.cluster.node_control.remove(1)
    wire.cluster.transactions.ensure_topic()
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000)
    assert wire.ask(request, 4, 2).error_code == ErrorCode.NONE
    assert node_ids == [2]
    wire.end()
