"""The logs and state machines of a data directory, which stays as it is."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.lab.file_console import opened_directory
from kafkalite.lab.file_console.opened_directory import REPLICATION_FILE, OpenedDirectory
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.clock import AdjustableClock
from kafkalite.storage.batch import CRC_END, split_batches
from kafkalite.storage.crc import crc32c
from kafkalite.storage.data_directory import BOOT_FILE, CLEAN_SHUTDOWN_FILE, RECOVERY_POINTS_FILE

if TYPE_CHECKING:
    from pathlib import Path


def content_of(directory: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(directory.rglob("*")) if each.is_file()}


@pytest.fixture
def copied(data_directory: Path, tmp_path: Path) -> Path:
    return shutil.copytree(data_directory, tmp_path / "copy")


def lose_checkpoints(directory: Path) -> None:
    """Leave a directory as if its broker had been killed before it wrote a checkpoint."""
    for name in (CLEAN_SHUTDOWN_FILE, RECOVERY_POINTS_FILE):
        (directory / name).unlink()


def opened(path: Path) -> OpenedDirectory:
    return OpenedDirectory(str(path), AdjustableClock())


def test_a_log_with_an_incomplete_write_is_read_up_to_it(copied: Path) -> None:
    lose_checkpoints(copied)
    segment = copied / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    before = content_of(copied)
    directory = opened(copied)
    partition = directory.partition(directory.image.topics["orders"], 0)
    assert partition is not None
    assert 0 < partition.end_offset < 30
    assert not directory.was_shut_down_cleanly
    assert content_of(copied) == before


def test_a_log_that_grows_is_read_again(copied: Path) -> None:
    segment = copied / "orders-0" / f"{0:020}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    lose_checkpoints(copied)
    directory = opened(copied)
    topic = directory.image.topics["orders"]
    first = directory.partition(topic, 0)
    assert first is directory.partition(topic, 0)
    segment.write_bytes(whole)
    second = directory.partition(topic, 0)
    assert first is not None
    assert second is not None
    assert first.end_offset < second.end_offset == 30


def test_only_a_directory_of_kafka_has_no_replica_without_files(copied: Path) -> None:
    directory = opened(copied)
    empty = directory.partition(directory.image.topics["orders"], 1)
    assert empty is not None
    assert empty.end_offset == 0
    (copied / BOOT_FILE).unlink()
    directory = opened(copied)
    topic = directory.image.topics["orders"]
    assert directory.partition(topic, 1) is None
    assert [each.index for each in directory.partitions(topic)] == [0]
    assert directory.segment_with("orders", 1, 0) is None
    assert directory.segment_with("orders", 0, 5) == f"{copied}/orders-0/{0:020}.log"


def test_the_stored_high_watermark_is_that_of_the_partition(copied: Path) -> None:
    directory = opened(copied)
    partition = directory.partition(directory.image.topics["orders"], 0)
    assert partition is not None
    assert directory.high_watermark(partition) == 30
    (copied / REPLICATION_FILE).write_text("0\n1\norders 0 20\n")
    assert directory.high_watermark(partition) == 20
    (copied / REPLICATION_FILE).write_text("damaged")
    assert opened(copied).high_watermark(partition) == 30
    (copied / REPLICATION_FILE).write_text("0\n1\norders 0 20\n")
    (copied / CLEAN_SHUTDOWN_FILE).unlink()
    assert opened(copied).high_watermark(partition) == 30


def test_few_logs_are_open(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_directory, "_MAX_OPEN", 1)
    directory = opened(copied)
    topic = directory.image.topics["orders"]
    first = directory.partition(topic, 0)
    directory.partition(topic, 1)
    assert directory.partition(topic, 0) is not first


def test_state_machines_are_those_of_the_logs(data_directory: Path) -> None:
    directory = opened(data_directory)
    groups = [
        name
        for _, machine in directory.machines(OFFSETS_TOPIC)
        for name in machine.directory.groups
    ]
    assert sorted(groups) == ["new", "shop"]
    assert list(directory.machines("none")) == []
    assert directory.properties["node.id"] == "1"


def test_a_directory_without_a_metadata_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TimeTravelError, match="it has no __cluster_metadata-0"):
        opened(tmp_path)


def test_a_partition_of_a_topic_that_was_not_created_is_named(copied: Path) -> None:
    topic_id = opened(copied).image.topics["orders"].topic_id
    segment = copied / f"{METADATA_TOPIC}-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes().replace(topic_id, bytes(16), 1))  # in TopicRecord only
    for batch in split_batches(bytes(data)):
        end = data.index(batch.data) + CRC_END
        checked = bytes(batch.data[CRC_END:])
        data[end - 4 : end] = crc32c(checked, 0).to_bytes(4, "big")
    segment.write_bytes(data)
    with pytest.raises(TimeTravelError, match="refers to something that no record before it"):
        _ = opened(copied).image
