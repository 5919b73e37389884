"""The data directory: clean and unclean ends, checkpoints, strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.files import OsFiles
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import SMALL, append, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.storage.log import Log

NAME = ("some-topic", 3)


def open_log(directory: DataDirectory, topic_id: str | None = "id") -> Log:
    return directory.open_log(*NAME, SMALL, now_ms=0, topic_id=topic_id)


def test_a_clean_end_is_known_once() -> None:
    files = MemoryFiles()
    first = DataDirectory(files, "data")
    assert not first.was_clean
    log = open_log(first)
    append(log, b"a")
    first.close({NAME: log})
    assert files.read("data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    second = DataDirectory(files, "data")
    assert second.was_clean
    assert values_of(open_log(second)) == [b"a"]
    assert not DataDirectory(files, "data").was_clean


def test_without_a_clean_end_logs_are_read_through_from_the_recovery_point() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    for number in range(30):
        append(log, b"value %d" % number)
        if number == 20:
            log.flush()
            directory.checkpoint({NAME: log})
    first = files.open("data/some-topic-3/00000000000000000000.log")
    damaged = first.pread(1000, 0)[:-1] + b"?"
    first.truncate(0)
    first.append([damaged])
    again = open_log(DataDirectory(files, "data"))
    # The damage lies before the recovery point: it is not looked for, and found when it is read.
    assert again.end_offset == 30
    assert again.recovery_point == 21
    files.remove("data/recovery-point-offset-checkpoint")
    assert open_log(DataDirectory(files, "data")).end_offset < 21


def test_where_a_log_begins_survives() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    for number in range(6):
        append(log, b"value %d" % number)
    log.delete_before(4)
    log.first_dirty_offset = 5
    directory.checkpoint({NAME: log})
    assert files.read("data/log-start-offset-checkpoint") == b"0\n1\nsome-topic 3 4\n"
    assert files.read("data/cleaner-offset-checkpoint") == b"0\n1\nsome-topic 3 5\n"
    again = open_log(DataDirectory(files, "data"))
    assert (again.start_offset, again.first_dirty_offset) == (4, 5)
    assert values_of(again) == [b"value 4", b"value 5"]


def test_a_log_that_lost_all_begins_where_it_did() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a", b"b", b"c")
    log.delete_before(3)
    directory.checkpoint({NAME: log})
    after = DataDirectory(files.without_power(lambda _: 0), "data")
    again = open_log(after)
    assert (again.start_offset, again.end_offset) == (3, 3)
    assert append(again, b"d") == 3


def test_checkpoints_that_say_nothing_new_are_not_written() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a")
    directory.checkpoint({NAME: log})
    assert "data/log-start-offset-checkpoint" not in files.paths
    files.remove("data/recovery-point-offset-checkpoint")
    directory.checkpoint({NAME: log})
    assert "data/recovery-point-offset-checkpoint" not in files.paths


def test_a_damaged_checkpoint_counts_as_absent() -> None:
    files = MemoryFiles()
    files.makedirs("data")
    files.open("data/recovery-point-offset-checkpoint", create=True).append([b"?"])
    assert open_log(DataDirectory(files, "data")).end_offset == 0


def test_an_older_topic_of_the_same_name_is_set_aside() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory, "old id")
    append(log, b"a", b"b")
    log.delete_before(1)
    directory.close({NAME: log})
    directory = DataDirectory(files, "data")
    again = open_log(directory, "new id")
    assert directory.set_aside == [("some-topic-3", "some-topic-3.1-stray")]
    assert files.read("data/some-topic-3.1-stray/partition.metadata").endswith(b"old id")
    assert (again.start_offset, again.end_offset) == (0, 0)
    append(again, b"new")
    assert files.read("data/some-topic-3/partition.metadata").endswith(b"new id")


def test_what_is_not_a_partition_is_left_alone() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    append(open_log(directory), b"a")
    for name in ("no partition", "other-1", "stray-0", "-5", "t-x"):
        files.makedirs(f"data/{name}")
    assert directory.partitions() == [("other", 1), ("some-topic", 3), ("stray", 0)]
    directory.set_strays_aside({NAME, ("other", 1)})
    assert directory.partitions() == [("other", 1), NAME]
    assert directory.set_aside == [], "the stray was empty"


def test_data_that_nobody_knows_is_kept_under_another_name() -> None:
    """Should the metadata be lost, it is all there is of the data."""
    files = MemoryFiles()
    for number in (1, 2):
        directory = DataDirectory(files, "data")
        log = open_log(directory)
        append(log, b"%d" % number)
        directory.close({NAME: log})
        directory = DataDirectory(files, "data")
        directory.set_strays_aside(())
        assert directory.partitions() == []
        assert directory.set_aside == [("some-topic-3", f"some-topic-3.{number}-stray")]
        directory.close({})
    assert open_log(DataDirectory(files, "data")).end_offset == 0
    for number in (1, 2):
        path = f"data/some-topic-3.{number}-stray/{0:020d}.log"
        assert files.read(path).endswith(b"%d\0" % number)


def test_a_directory_that_belongs_to_an_unreadable_topic_is_told() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    append(open_log(directory, "id"), b"a")
    files.remove("data/some-topic-3/partition.metadata")
    files.open("data/some-topic-3/partition.metadata", create=True).append([b"\xff\xfe"])
    with pytest.raises(OSError, match="not a text file") as refused:
        open_log(directory, "id")
    assert refused.value.filename == "data/some-topic-3/partition.metadata"


def test_a_deletion_that_cannot_be_finished_keeps_nobody_from_starting() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0.0123456789abcdef-delete/deeper")
    files.open("data/t-0.0123456789abcdef-delete/deeper/file", create=True)
    assert DataDirectory(files, "data").partitions() == []


def test_a_deletion_that_was_not_finished_is() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0.0123456789abcdef-delete")
    files.open("data/t-0.0123456789abcdef-delete/x.log", create=True)
    directory = DataDirectory(files, "data")
    assert directory.partitions() == []
    assert [path for path in files.paths if "delete" in path] == []


def test_the_cluster_is_written_down() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    assert directory.properties == {}
    directory.write_properties(cluster_id="c", node_id=1, directory_id="d")
    assert DataDirectory(files, "data").properties == {
        "version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "d",
    }  # fmt: skip


def test_the_lock_is_let_go_in_the_end(tmp_path: Path) -> None:
    path = str(tmp_path)
    DataDirectory(OsFiles(), path).abandon()
    DataDirectory(OsFiles(), path).close({})
    assert DataDirectory(OsFiles(), path).was_clean
