"""The data directory: clean and unclean shutdowns, checkpoints, stray directories."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.background import run_steps
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.unit.storage.logs import SMALL, append, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.storage.log import Log

NAME = ("some-topic", 3)


OLD_ID, NEW_ID = (uuid_to_text(bytes([number]) * 16) for number in (1, 2))


def open_log(directory: DataDirectory, topic_id: str | None = OLD_ID) -> Log:
    return directory.open_log(*NAME, SMALL, now_ms=0, topic_id=topic_id)


def test_clean_shutdown_marker_is_valid_for_one_start() -> None:
    files = MemoryFiles()
    first = DataDirectory(files, "data")
    assert not first.was_shut_down_cleanly
    log = open_log(first)
    append(log, b"a")
    first.close({NAME: log})
    assert files.read("data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    second = DataDirectory(files, "data")
    assert second.was_shut_down_cleanly
    assert values_of(open_log(second)) == [b"a"]
    assert not DataDirectory(files, "data").was_shut_down_cleanly


def test_after_an_unclean_shutdown_logs_are_checked_from_the_recovery_point() -> None:
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
    # The damage is before the recovery point: it is not searched for, and found by a read.
    assert again.end_offset == 30
    assert again.recovery_point == 21
    files.remove("data/recovery-point-offset-checkpoint")
    assert open_log(DataDirectory(files, "data")).end_offset < 21


def test_log_start_offset_survives_a_restart() -> None:
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


def test_log_without_segments_begins_at_its_start_offset() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a", b"b", b"c")
    log.delete_before(3)
    directory.checkpoint({NAME: log})
    after = DataDirectory(files.after_power_loss(lambda _: 0), "data")
    again = open_log(after)
    assert (again.start_offset, again.end_offset) == (3, 3)
    assert append(again, b"d") == 3


def test_unchanged_checkpoints_are_not_written() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a")
    directory.checkpoint({NAME: log})
    assert "data/log-start-offset-checkpoint" not in files.paths
    files.remove("data/recovery-point-offset-checkpoint")
    directory.checkpoint({NAME: log})
    assert "data/recovery-point-offset-checkpoint" not in files.paths


def test_damaged_checkpoint_is_ignored() -> None:
    files = MemoryFiles()
    files.makedirs("data")
    files.open("data/recovery-point-offset-checkpoint", create=True).append([b"?"])
    assert open_log(DataDirectory(files, "data")).end_offset == 0


def test_directory_of_an_older_topic_with_the_same_name_is_renamed() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory, OLD_ID)
    append(log, b"a", b"b")
    log.delete_before(1)
    directory.close({NAME: log})
    directory = DataDirectory(files, "data")
    again = open_log(directory, NEW_ID)
    assert directory.renamed_directories == [("some-topic-3", "some-topic-3.1-stray")]
    assert files.read("data/some-topic-3.1-stray/partition.metadata").endswith(OLD_ID.encode())
    assert (again.start_offset, again.end_offset) == (0, 0)
    append(again, b"new")
    assert files.read("data/some-topic-3/partition.metadata").endswith(NEW_ID.encode())


def test_other_directories_are_ignored() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    append(open_log(directory), b"a")
    for name in ("no partition", "other-1", "stray-0", "-5", "t-x"):
        files.makedirs(f"data/{name}")
    assert directory.partitions() == [("other", 1), ("some-topic", 3), ("stray", 0)]
    directory.move_stray_directories({NAME, ("other", 1)})
    assert directory.partitions() == [("other", 1), NAME]
    assert directory.renamed_directories == [], "the stray was empty"


def test_stray_directories_are_renamed() -> None:
    """If the metadata was lost, they are the only copy of the data."""
    files = MemoryFiles()
    for number in (1, 2):
        directory = DataDirectory(files, "data")
        log = open_log(directory)
        append(log, b"%d" % number)
        directory.close({NAME: log})
        directory = DataDirectory(files, "data")
        directory.move_stray_directories(())
        assert directory.partitions() == []
        assert directory.renamed_directories == [("some-topic-3", f"some-topic-3.{number}-stray")]
        directory.close({})
    assert open_log(DataDirectory(files, "data")).end_offset == 0
    for number in (1, 2):
        path = f"data/some-topic-3.{number}-stray/{0:020d}.log"
        assert files.read(path).endswith(b"%d\0" % number)


def test_unreadable_partition_metadata_is_reported() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    append(open_log(directory), b"a")
    files.remove("data/some-topic-3/partition.metadata")
    files.open("data/some-topic-3/partition.metadata", create=True).append([b"\xff\xfe"])
    with pytest.raises(OSError, match="not a text file") as refused:
        open_log(directory)
    assert refused.value.filename == "data/some-topic-3/partition.metadata"


def test_failed_removal_of_a_deleted_directory_does_not_prevent_a_start() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0.0123456789abcdef-delete/deeper")
    files.open("data/t-0.0123456789abcdef-delete/deeper/file", create=True)
    assert DataDirectory(files, "data").partitions() == []


def test_unfinished_deletion_is_completed() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0.0123456789abcdef-delete")
    files.open("data/t-0.0123456789abcdef-delete/x.log", create=True)
    directory = DataDirectory(files, "data")
    assert directory.partitions() == []
    assert [path for path in files.paths if "delete" in path] == []


def test_meta_properties_are_written() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    assert directory.properties == {}
    directory.write_properties(cluster_id="c", node_id=1, directory_id="d")
    assert DataDirectory(files, "data").properties == {
        "version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "d",
    }  # fmt: skip


def test_lock_is_released_on_close(tmp_path: Path) -> None:
    path = str(tmp_path)
    DataDirectory(OsFiles(), path).release_lock()
    DataDirectory(OsFiles(), path).close({})
    assert DataDirectory(OsFiles(), path).was_shut_down_cleanly


def test_older_checkpoint_does_not_replace_a_newer_one() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a", b"b", b"c")
    log.flush()
    begun = directory.checkpoint_steps({NAME: log})
    job = next(begun) or next(begun)
    assert job is not None
    append(log, b"d")
    log.flush()
    directory.checkpoint({NAME: log})
    newer = files.read("data/recovery-point-offset-checkpoint")
    job()
    run_steps(begun)
    assert files.read("data/recovery-point-offset-checkpoint") == newer
    assert newer.endswith(b" 4\n")


@pytest.mark.parametrize("runs_job", ["before", "after", "never"])
def test_lowered_recovery_point_is_written_while_another_checkpoint_is_in_progress(
    runs_job: str,
) -> None:
    """The other checkpoint has a larger one, and the file still has the lowered one."""
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a", b"b", b"c")
    directory.checkpoint({NAME: log})
    log.flush()
    begun = directory.checkpoint_steps({NAME: log})
    job = next(begun) or next(begun)
    assert job is not None
    if runs_job == "before":
        job()
    log.prepare_truncation(0)
    directory.checkpoint({NAME: log})
    if runs_job == "after":
        job()
    with suppress(OSError):
        if runs_job == "never":
            begun.throw(OSError())
        run_steps(begun)
    assert files.read("data/recovery-point-offset-checkpoint").endswith(b" 0\n")
    log.flush()
    directory.checkpoint({NAME: log})
    assert files.read("data/recovery-point-offset-checkpoint").endswith(b" 3\n")
    log.prepare_truncation(0)
    directory.checkpoint({NAME: log})
    assert files.read("data/recovery-point-offset-checkpoint").endswith(b" 0\n")


def test_checkpoint_that_was_refused_is_written_again() -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    append(log, b"a", b"b", b"c")
    directory.checkpoint({NAME: log})
    log.flush()
    # The new content is in place, but its name was not synced.
    files.fail_from(files.steps + 3)
    with pytest.raises(OSError, match="space"):
        directory.checkpoint({NAME: log})
    log.prepare_truncation(0)
    directory.checkpoint({NAME: log})
    assert files.read("data/recovery-point-offset-checkpoint").endswith(b" 0\n")


@pytest.mark.parametrize("is_marked", [False, True])
def test_segment_after_a_truncated_unflushed_one_is_dropped(*, is_marked: bool) -> None:
    """Without the mark the gap could be a result of Kafka's compaction."""
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    config = SMALL._replace(cleanup_policy=frozenset({"compact"}))
    log = directory.open_log(*NAME, config, now_ms=0)
    for value in (b"a", b"b", b"c"):
        append(log, value)
        log.roll(0)
    assert [log] == list(directory.logs_to_flush)
    first = files.open("data/some-topic-3/00000000000000000001.log")
    first.truncate(0)
    if not is_marked:
        files.remove(f"data/some-topic-3/{2:020d}.unflushed")
    again = DataDirectory(files, "data").open_log(*NAME, config, now_ms=0)
    assert values_of(again) == ([b"a"] if is_marked else [b"a", b"c"])


def damaged_log(files: MemoryFiles) -> Log:
    """Open a log after a crash whose first batch of three is damaged."""
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    directory.end_loading()
    for _ in range(3):
        append(log, b"value")
    path = "data/some-topic-3/00000000000000000000.log"
    files.write(path, b"?" + files.read(path)[1:])
    return open_log(DataDirectory(files, "data"))


def test_only_a_restart_of_the_system_loses_written_records() -> None:
    files = MemoryFiles()
    assert damaged_log(files).end_offset == 3
    restarted = files.after_power_loss(lambda size: size)
    assert open_log(DataDirectory(restarted, "data")).end_offset == 0


def test_an_operator_can_have_a_damaged_log_truncated() -> None:
    files = MemoryFiles()
    assert damaged_log(files).damage_errors
    files.remove("data/.kafkalite_boot")
    log = DataDirectory(files, "data").open_log(*NAME, SMALL, now_ms=0, is_internal=True)
    assert (log.end_offset, log.truncated_end_offset) == (0, 3)


def test_a_loss_of_power_is_possible_until_the_logs_are_loaded() -> None:
    """Recovery itself may end early, and must then continue as it began."""
    files = MemoryFiles()
    DataDirectory(files, "data").end_loading()
    restarted = files.after_power_loss(lambda size: size)
    for _ in range(2):
        directory = DataDirectory(restarted, "data")
        assert directory.may_have_lost_writes
    directory.end_loading()
    assert not DataDirectory(restarted, "data").may_have_lost_writes


def test_without_an_id_of_the_systems_start_a_loss_of_power_is_possible() -> None:
    class Files(MemoryFiles):
        def boot_id(self) -> None:
            return None

    files = Files()
    DataDirectory(files, "data").end_loading()
    assert DataDirectory(files, "data").may_have_lost_writes
    assert files.read("data/.kafkalite_boot") == b""


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_missing_directory_is_reported(*, is_clean: bool) -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    log = open_log(directory)
    directory.end_loading()
    for _ in range(3):
        append(log, b"value")
    log.flush()
    directory.checkpoint({NAME: log})
    if is_clean:
        directory.close({NAME: log})
    for path in files.paths:
        if path.startswith("data/some-topic-3/"):
            files.remove(path)
    files.remove_directory("data/some-topic-3")
    again = DataDirectory(files, "data")
    assert open_log(again).end_offset == 0
    assert again.missing_directories == {NAME: 3}


def test_missing_segments_are_reported_until_the_log_is_complete() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    directory.write_properties(cluster_id="c", node_id=1, directory_id="d")
    log = open_log(directory)
    directory.end_loading()
    append(log, b"value")
    directory.close({NAME: log})
    segment = f"data/some-topic-3/{0:020d}.log"
    content = files.read(segment)
    files.remove(segment)
    damaged = DataDirectory(files, "data")
    open_log(damaged)
    (failure,) = damaged.health.failures
    assert (failure.path, failure.reason) == (
        "data/some-topic-3",
        "the flushed records with the offsets 0 to 0 are missing",
    )
    files.write(segment, content)
    open_log(damaged)
    assert not damaged.health.failures


def test_a_new_topic_with_the_name_of_a_deleted_one_is_not_damaged_after_a_crash() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files, "data")
    old = open_log(directory)
    directory.end_loading()
    for _ in range(3):
        append(old, b"value")
    old.flush()
    directory.checkpoint({NAME: old})
    directory.delete_log(old)
    new = open_log(directory, NEW_ID)
    append(new, b"new")
    again = DataDirectory(files, "data")
    log = open_log(again, NEW_ID)
    assert (log.end_offset, log.damage_errors) == (1, ())
    assert again.missing_directories == {}
