"""The partition table applies the metadata, and opens and deletes logs."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.image import MetadataDelta
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.partitions.table import PartitionTable, Truncation
from kafkalite.ports.background import run_steps
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.batch import BatchView
from kafkalite.storage.file_names import parse_partition_directory
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from kafkalite.metadata.image import TopicImage
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


def test_logs_of_many_new_partitions_are_opened_with_one_list_of_the_directory(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    original = OsFiles.list

    def list_names(self: OsFiles, path: str) -> list[str]:
        listed.append(path)
        return original(self, path)

    monkeypatch.setattr(OsFiles, "list", list_names)
    plane.create(partitions=50)
    assert listed == [str(plane.directory)]
    assert len(plane.table.logs()) == 50


def test_directory_of_a_former_topic_is_not_used_by_many_new_partitions(plane: DataPlane) -> None:
    plane.create()
    plane.append(b"old")
    content = {path.name: path.read_bytes() for path in (plane.directory / "t-0").iterdir()}
    plane.delete("t")
    run_steps(plane.table.remove_deleted())
    (plane.directory / "t-30").mkdir()
    (plane.directory / "t-40").mkdir()
    for name, data in content.items():
        (plane.directory / "t-30" / name).write_bytes(data)
    plane.create(partitions=50)
    assert values(plane, index=30) == []
    assert directories(plane) == {"t-30.1-stray", "t-40"}
    assert plane.append(b"new", index=30) == plane.append(b"new", index=40) == 0


def test_new_configuration_applies_at_once(plane: DataPlane) -> None:
    plane.create()
    plane.configure("t", {"retention.ms": "5"})
    assert plane.partition().log.config.retention_ms == 5
    hosted = plane.table.topic("t")
    assert hosted is not None
    assert hosted.config.retention_ms == 5


def test_a_log_has_the_defaults_of_the_node_that_leads(plane: DataPlane) -> None:
    plane.config.configure_node(1, {"log.retention.ms": "1000", "message.max.bytes": "200"})
    plane.create("t", replicas=(0, 1))
    assert plane.partition().log.config.retention_ms == 604_800_000
    plane.lead("t", 1, 1)
    config = plane.partition().log.config
    assert (config.retention_ms, config.max_message_bytes) == (1000, 200)
    # A partition without a leader has the settings of the last one.
    plane.lead("t", -1, 2)
    assert plane.partition().log.config is config
    plane.lead("t", 0, 3)
    assert plane.partition().log.config.retention_ms == 604_800_000


def test_the_settings_of_a_topic_have_precedence_at_each_leader(plane: DataPlane) -> None:
    plane.config.configure_node(1, {"log.retention.ms": "1000", "message.max.bytes": "200"})
    plane.create("t", replicas=(1,), config={"retention.ms": "5"})
    config = plane.partition().log.config
    assert (config.retention_ms, config.max_message_bytes) == (5, 200)
    plane.configure("t", {"max.message.bytes": "300"})
    config = plane.partition().log.config
    assert (config.retention_ms, config.max_message_bytes) == (1000, 300)
    plane.restart()
    config = plane.partition().log.config
    assert (config.retention_ms, config.max_message_bytes) == (1000, 300)


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
        log_config=lambda _, __: LogConfig(),
        has_own_defaults=lambda _: False,
        max_fetch_sessions=lambda _: 1000,
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


# --- truncation by new leaders -------------------------------------------------------------------


def truncated(topic: TopicImage, leader_epoch: int, offset: int = -1) -> TopicImage:
    """Return the topic with new leaders, which truncate the logs at `offset` if it is not -1."""
    partitions = [one._replace(leader_epoch=leader_epoch) for one in topic.partitions]
    if offset >= 0:
        partitions = [
            one._replace(epoch_start_offset=offset, truncation_epoch=leader_epoch)
            for one in partitions
        ]
    return topic._replace(partitions=tuple(partitions))


def set_image(plane: DataPlane, topic: TopicImage) -> None:
    """Change a topic as the metadata log does, without applying the change."""
    plane.image = plane.image._replace(
        topics={topic.name: topic}, topics_by_id={topic.topic_id: topic}
    )


def recovery_point(plane: DataPlane) -> str:
    text = (plane.directory / "recovery-point-offset-checkpoint").read_text()
    return text.splitlines()[-1]


def flushed(plane: DataPlane, *records: bytes) -> None:
    for record in records:
        plane.append(record)
    plane.partition().log.flush()
    plane.table.checkpoint()


def test_new_leader_truncates_the_log(plane: DataPlane) -> None:
    topic = plane.create()
    flushed(plane, b"a", b"b", b"c")
    assert recovery_point(plane) == "t 0 3"
    plane.change(truncated(topic, 4, 1))
    assert values(plane) == [b"a"]
    assert recovery_point(plane) == "t 0 0"
    partition = plane.partition()
    assert (partition.leader_epoch, partition.high_watermark) == (4, 1)
    assert partition.log.epochs.entries == [(0, 0), (4, 1)]
    assert plane.append(b"d") == 1
    plane.change(truncated(plane.image.topics["t"], 5))
    assert values(plane) == [b"a", b"d"]
    assert plane.truncations == [Truncation("t", 0, partition.leader, 4, 1, 2)]


@pytest.mark.parametrize("later_epochs", [0, 3])
@pytest.mark.parametrize("cleanly", [True, False])
def test_start_completes_a_truncation(
    plane: DataPlane, *, cleanly: bool, later_epochs: int
) -> None:
    topic = plane.create()
    flushed(plane, b"a", b"b", b"c")
    set_image(plane, truncated(truncated(topic, 4, 1), 4 + later_epochs))
    plane.restart(cleanly=cleanly)
    assert values(plane) == [b"a"]
    assert recovery_point(plane) == "t 0 0"
    assert plane.append(b"d") == 1
    assert plane.partition().log.epochs.latest == 4 + later_epochs
    for again in (False, True):
        plane.restart(cleanly=again)
        assert values(plane) == [b"a", b"d"]
    assert [(each.end_offset, each.removed_offsets) for each in plane.truncations] == [(1, 2)]


def test_records_after_a_truncation_survive_the_loss_of_the_epoch_checkpoint(
    plane: DataPlane,
) -> None:
    topic = plane.create()
    flushed(plane, b"a", b"b", b"c")
    plane.change(truncated(topic, 4, 1))
    flushed(plane, b"d", b"e")
    plane.change(truncated(plane.image.topics["t"], 5))
    for cleanly in (True, False):
        if cleanly:
            plane.data_directory.close(plane.table.logs())
        (plane.directory / "t-0" / "leader-epoch-checkpoint").unlink(missing_ok=True)
        plane.restart(cleanly=False)
        assert values(plane) == [b"a", b"d", b"e"]


def test_log_is_not_truncated_on_disk_if_its_recovery_point_cannot_be_lowered(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = plane.create(partitions=2)
    flushed(plane, b"a", b"b", b"c")
    plane.append(b"other", index=1)

    def refuse(_: str) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(plane.files, "sync", refuse)
    first, second = truncated(topic, 4, 1).partitions
    second = second._replace(epoch_start_offset=-1, truncation_epoch=-1)
    with pytest.raises(OSError, match="space"):
        plane.change(topic._replace(partitions=(first, second)))
    assert (values(plane), values(plane, index=1)) == ([b"a"], [b"other"])
    assert [plane.partition(index=index).leader_epoch for index in (0, 1)] == [4, 4]
    assert plane.partition().high_watermark == 1
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        plane.append(b"refused")
    assert plane.append(b"more", index=1) == 1
    assert len((plane.directory / "t-0" / f"{0:020d}.log").read_bytes()) > 200
    monkeypatch.undo()
    # A later leader has no reason to truncate, because readers do not see the records.
    plane.change(truncated(plane.image.topics["t"], 5))
    plane.restart(cleanly=False)
    assert (values(plane), values(plane, index=1)) == ([b"a"], [b"other", b"more"])
    assert plane.append(b"d") == 1


def test_log_that_cannot_be_truncated_at_a_start_can_be_read(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = plane.create()
    flushed(plane, b"a", b"b", b"c")
    set_image(plane, truncated(topic, 4, 1))

    def refuse(_: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(plane.files, "sync", refuse)
    plane.restart(cleanly=False)
    assert values(plane) == [b"a"]
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        plane.append(b"refused")
    assert plane.table.disk_health.failures
    with suppress(OSError):
        plane.data_directory.close(plane.table.logs())
    monkeypatch.undo()
    plane.restart(cleanly=False)
    assert values(plane) == [b"a"]
    assert plane.append(b"d") == 1


def test_log_that_is_opened_late_is_truncated(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = plane.create()
    flushed(plane, b"a", b"b", b"c")

    def refuse(*_: object, **__: object) -> Log:
        raise OSError(errno.EMFILE, "too many open files")

    plane.data_directory.close(plane.table.logs())
    with monkeypatch.context() as patched:
        patched.setattr(type(plane.data_directory), "open_log", refuse)
        with pytest.raises(OSError, match="too many"):
            plane.restart(cleanly=False)
        with pytest.raises(OSError, match="too many"):
            plane.change(truncated(topic, 4, 1))
    plane.change(truncated(plane.image.topics["t"], 5))
    assert values(plane) == [b"a"]
    assert plane.append(b"d") == 1
    assert plane.partition().log.epochs.entries == [(0, 0), (5, 1)]
