"""The partition table applies the metadata, and opens and deletes logs."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.image import MetadataDelta
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.partitions.table import PartitionTable
from kafkalite.ports.background import run_steps
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.batch import BatchView
from kafkalite.storage.file_names import parse_partition_directory
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from kafkalite.storage.log import Log
    from tests.unit.data_plane import DataPlane


def directories(plane: DataPlane) -> set[str]:
    return {path.name for path in plane.directory.iterdir() if path.is_dir()}


def values(plane: DataPlane, name: str = "t", index: int = 0) -> list[bytes | None]:
    partition = plane.partition(name, index)
    return values_in(
        partition.read(
            partition.log_start_offset, max_bytes=2**20, limit_offset=2**40, at_least_one=True
        )
    )


def test_topic_is_found_by_name_and_by_id(plane: DataPlane) -> None:
    topic = plane.create(partitions=2)
    assert plane.table.get(topic.topic_id, 1) is plane.partition(index=1)
    assert plane.table.get(topic.topic_id, 2) is None
    assert plane.table.get(topic.topic_id, -1) is None
    assert plane.table.get(bytes(16), 0) is None
    assert plane.table.topic("missing") is None
    assert [hosted.name for hosted in plane.table.topics()] == ["t"]
    assert plane.table.directory == str(plane.directory)


def test_empty_partition_has_no_directory(plane: DataPlane) -> None:
    plane.create(partitions=2)
    assert directories(plane) == set()
    plane.append(b"v", index=1)
    assert directories(plane) == {"t-1"}


def test_partition_metadata_has_the_topic_id(plane: DataPlane) -> None:
    topic = plane.create()
    plane.append(b"v")
    content = (plane.directory / "t-0" / "partition.metadata").read_text()
    assert content == f"version: 0\ntopic_id: {uuid_to_text(topic.topic_id)}"


def test_records_survive_a_restart(plane: DataPlane) -> None:
    plane.create(partitions=2)
    plane.append(b"a")
    for cleanly in (True, False):
        plane.restart(cleanly=cleanly)
        assert values(plane) == [b"a"]
        assert plane.partition(index=1).end_offset == 0


def test_deletion_of_a_topic_removes_its_logs(plane: DataPlane) -> None:
    plane.create(partitions=2)
    plane.append(b"a")
    plane.append(b"b", index=1)
    plane.delete("t")
    assert plane.table.topic("t") is None
    assert not any(map(parse_partition_directory, directories(plane)))
    run_steps(plane.table.remove_deleted())
    assert directories(plane) == set()


def test_second_deletion_of_a_topic_removes_its_logs(plane: DataPlane) -> None:
    for _ in range(2):
        plane.create(partitions=1)
        plane.append(b"a")
        plane.delete("t")
    assert len(directories(plane)) == 2
    run_steps(plane.table.remove_deleted())
    assert directories(plane) == set()


def test_recreated_topic_is_empty(plane: DataPlane) -> None:
    first = plane.create()
    plane.append(b"old")
    plane.delete("t")
    second = plane.create()
    assert first.topic_id != second.topic_id
    assert plane.partition().end_offset == 0
    assert plane.append(b"new") == 0


def test_recreated_topic_ignores_checkpoints_of_the_old_one(
    plane: DataPlane,
) -> None:
    for cleanly in (None, True, False):
        plane.create()
        plane.append(b"old")
        plane.append(b"lost")
        plane.partition().delete_records(1)
        plane.table.checkpoint()
        plane.delete("t")
        if cleanly is not None:
            plane.restart(cleanly=cleanly)
        plane.create()
        assert (plane.partition().log_start_offset, plane.partition().end_offset) == (0, 0)
        assert plane.append(b"new") == 0
        plane.delete("t")


def test_log_of_a_deleted_topic_is_not_used_by_a_new_one(plane: DataPlane) -> None:
    """For example after a crash between the deletion in the metadata and that of the files."""
    topic = plane.create()
    plane.append(b"old")
    plane.change(topic._replace(partitions=()))
    image = plane.image
    plane.image = image._replace(topics={}, topics_by_id={})
    plane.restart(cleanly=False)
    assert directories(plane) == {"t-0.1-stray"}
    plane.create()
    assert values(plane) == []


def test_topic_can_be_recreated_in_the_change_that_deletes_it(plane: DataPlane) -> None:
    old = plane.create()
    plane.append(b"old")
    new = old._replace(topic_id=plane.entropy.uuid())
    plane.image = plane.image._replace(topics={"t": new}, topics_by_id={new.topic_id: new})
    plane.table.apply(plane.image, MetadataDelta(deleted=(old,), created=(new,)))
    assert plane.table.topic_by_id(old.topic_id) is None
    assert values(plane) == []
    assert plane.append(b"new") == 0


def test_topic_is_deleted_although_the_disk_fails(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.create()
    plane.append(b"v")

    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(plane.files, "rename", fail)
    plane.delete("t")
    assert plane.table.topic("t") is None
    plane.restart(cleanly=False)
    assert directories(plane) == {"t-0"}
    monkeypatch.undo()
    plane.restart(cleanly=False)
    assert directories(plane) == {"t-0.1-stray"}


def test_logs_that_failed_to_open_are_opened_when_their_topic_changes(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = plane.data_directory.open_log
    refused = {0}

    def open_some(topic: str, index: int, *rest: Any, **named: Any) -> Log:  # noqa: ANN401
        if index in refused:
            raise OSError(errno.EMFILE, "too many open files")
        return opened(topic, index, *rest, **named)

    monkeypatch.setattr(type(plane.data_directory), "open_log", staticmethod(open_some))
    with pytest.raises(OSError, match="too many"):
        plane.create(partitions=2)
    topic = plane.table.topic("t")
    assert topic is not None
    assert topic.partitions == []
    for index in (0, 1):
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            plane.table.get(topic.topic_id, index)
    assert topic.partition(2) is None
    plane.configure("t", {"retention.ms": "5"})
    refused.clear()
    plane.change(plane.image.topics["t"])
    assert plane.append(b"v", index=1) == 0
    assert plane.partition().log.config.retention_ms == 5
    refused.add(0)
    with pytest.raises(OSError, match="too many"):
        plane.create("unlucky")
    with pytest.raises(OSError, match="not open"):
        open_coordinator_log(plane.table, "unlucky", 0)
    plane.delete("unlucky")
    assert plane.table.topic("unlucky") is None


def test_partitions_can_be_added_to_a_topic(plane: DataPlane) -> None:
    topic = plane.create()
    first = plane.partition()
    grown = (topic.partitions[0], topic.partitions[0]._replace(index=1))
    plane.change(topic._replace(partitions=grown))
    assert plane.partition() is first
    assert plane.append(b"v", index=1) == 0


def test_new_configuration_applies_at_once(plane: DataPlane) -> None:
    plane.create()
    plane.configure("t", {"retention.ms": "5"})
    assert plane.partition().log.config.retention_ms == 5
    hosted = plane.table.topic("t")
    assert hosted is not None
    assert hosted.config.retention_ms == 5


def test_other_logs_are_not_stray_directories(plane: DataPlane) -> None:
    (plane.directory / "stray-0").mkdir()
    log = plane.data_directory.open_log("own", 0, LogConfig(), now_ms=0)
    log.append((BatchView(batch_of(b"v")),), leader_epoch=0, now_ms=0)
    log.flush()
    table = PartitionTable(
        directory=plane.data_directory,
        other_logs={("own", 0): log},
        clock=plane.clock,
        entropy=plane.entropy,
        log_config=lambda _: LogConfig(),
    )
    table.open(plane.image)
    assert directories(plane) == {"own-0"}
    table.checkpoint()
    text = (plane.directory / "recovery-point-offset-checkpoint").read_text()
    assert text.split() == ["0", "1", "own", "0", "1"]


def test_coordinator_log_is_opened_by_topic_and_index(plane: DataPlane) -> None:
    plane.create("__consumer_offsets", partitions=2)
    log = open_coordinator_log(plane.table, "__consumer_offsets", 1)
    assert log.append([(b"k", b"v")], plane.clock.now_ms()) == 1
    assert values(plane, "__consumer_offsets", 1) == [b"v"]


def test_every_node_has_its_own_sessions(plane: DataPlane) -> None:
    table = plane.table
    assert table.fetch_sessions(0) is table.fetch_sessions(0)
    assert table.fetch_sessions(0) is not table.fetch_sessions(1)


def test_the_sessions_of_one_node_are_dropped(plane: DataPlane) -> None:
    table = plane.table
    first, second = table.fetch_sessions(0), table.fetch_sessions(1)
    table.drop_fetch_sessions(0)
    table.drop_fetch_sessions(0)
    assert table.fetch_sessions(0) is not first
    assert table.fetch_sessions(1) is second


def test_checkpoint_preserves_log_start_offsets(plane: DataPlane) -> None:
    plane.create()
    plane.append(b"a")
    plane.append(b"b")
    plane.partition().delete_records(1)
    plane.table.checkpoint()
    text = (plane.directory / "log-start-offset-checkpoint").read_text()
    assert text.split() == ["0", "1", "t", "0", "1"]
