"""The data directory: files next to the partition directories, and the clean shutdown marker.

The marker is removed before anything is written and restored after everything was written. If a
start finds it, the files are complete. Without it, logs are checked from their recovery point on.
Unless the system was restarted as well, nothing that was written can be missing. Checkpoints store
the recovery points, start offsets and first dirty offsets of the logs.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from kafkalite.ports.background import run_steps
from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.append_times import LogAppends
from kafkalite.storage.checkpoint import (
    CheckpointError,
    read_offsets,
    read_partition_metadata,
    read_properties,
    write_atomically,
    write_offsets,
    write_properties,
)
from kafkalite.storage.disk_health import DiskHealth, FileUse
from kafkalite.storage.file_names import (
    is_deleted_directory,
    parse_partition_directory,
    partition_directory,
    remove_directory_and_files,
    stray_directory,
)
from kafkalite.storage.log import PARTITION_METADATA_FILE, Log
from kafkalite.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.background import Steps
    from kafkalite.ports.files import DiskSpace, Files
    from kafkalite.ports.locks import Lock
    from kafkalite.storage.append_times import AppendTimes
    from kafkalite.storage.flushing import Flush

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_FILE = ".kafkalite_boot"
"""File with the id of the system's start in which all logs were last loaded."""
LOCK_FILE = ".lock"
META_FILE = "meta.properties"
RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSETS_FILE = "cleaner-offset-checkpoint"

_LOGS_PER_STEP = 100
_COPIED_BYTES = 1 << 20

TopicPartition = tuple[str, int]
"""Topic name and partition index."""


class _CopiedLog(NamedTuple):
    """A log, three of its offsets, and its copy."""

    log: Log
    offsets: tuple[int, int, int]
    copy: Log


class DataDirectory:
    """A directory with the logs of one cluster; its lock file keeps other processes out."""

    __slots__ = (
        "_boot_id",
        "_checkpoint_versions",
        "_checkpoints",
        "_copies",
        "_deleted_paths",
        "_files",
        "_is_loading",
        "_lock",
        "_path",
        "_recorded_boot_id",
        "_uncertain_checkpoints",
        "_write_lock",
        "_written_versions",
        "append_times",
        "health",
        "ignores_case",
        "known_logs",
        "logs_to_flush",
        "missing_directories",
        "properties",
        "renamed_directories",
        "was_initialized",
        "was_shut_down_cleanly",
    )

    def __init__(
        self,
        files: Files,
        path: str,
        logs: Mapping[TopicPartition, Log] | None = None,
        append_times: AppendTimes | None = None,
    ) -> None:
        """Open the directory at `path`, created if needed; raises OSError when it cannot be used.

        `logs` have the state of logs in files of which `files` are a copy; these are not read.
        With `append_times`, which are those of the logs, it is noted when logs grow.

        Raises BlockingIOError when another process has locked it.
        """
        self._files = files
        self._path = path
        self.known_logs = {} if logs is None else dict(logs)
        """The state of logs that were not opened yet."""
        self._copies: dict[TopicPartition, _CopiedLog] = {}
        self.append_times = append_times
        """When the logs have grown; None if that is not noted."""
        self.health = DiskHealth()
        files.makedirs(path)
        self._lock: Lock = files.lock(join(path, LOCK_FILE))
        self.ignores_case = _ignores_case(files, path)
        """Whether names that differ only in case are the same, as on most Macs and on Windows."""
        self.properties = read_properties(files, join(path, META_FILE))
        self.was_initialized = bool(self.properties)
        """Whether the directory belonged to a cluster before it was opened."""
        names = files.list(path)
        self.was_shut_down_cleanly = CLEAN_SHUTDOWN_FILE in names
        if self.was_shut_down_cleanly:
            files.remove(join(path, CLEAN_SHUTDOWN_FILE))
            files.sync_directory(path)
        self._boot_id = files.boot_id()
        self._recorded_boot_id = self._read_boot_id() if BOOT_FILE in names else None
        self._is_loading = True
        self.missing_directories: dict[TopicPartition, int] = {}
        """The recovery points of logs whose directories were missing when they were loaded."""
        _remove_deleted_directories(files, path, names)
        self.renamed_directories: list[tuple[str, str]] = []
        """Old and new names of the directories that were renamed because their topic is unknown."""
        self._deleted_paths: list[str] = []
        self.logs_to_flush: set[Log] = set()
        """Logs that began a segment before the previous one was flushed."""
        self._open_checkpoints()

    def _open_checkpoints(self) -> None:
        # Checkpoints that belong together have one version; a thread may write them.
        self._checkpoint_versions = count()
        self._written_versions: dict[str, int] = {}
        self._write_lock = threading.Lock()
        self._checkpoints = {
            name: self._read_checkpoint(name)
            for name in (RECOVERY_POINTS_FILE, START_OFFSETS_FILE, CLEANER_OFFSETS_FILE)
        }
        """The last known content of each checkpoint."""
        self._uncertain_checkpoints: set[str] = set()
        """Checkpoints that may have another content: a write has not ended, or it has failed."""

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self._path

    @property
    def disk_space(self) -> DiskSpace:
        """The size of the file system with the directory."""
        return self._files.disk_space(self._path)

    def copy_files(self, files: Files, path: str, logs: Collection[TopicPartition]) -> None:
        """Copy the files of these logs to another file system, and all that belongs to them.

        Called after `write_all`. Other files in the directory are not copied. Raises OSError.
        """
        files.makedirs(path)
        for name in (META_FILE, *self._checkpoints):
            if name in self._files.list(self._path):
                files.write(join(path, name), self._files.read(join(self._path, name)))
        for partition in logs:
            name = partition_directory(*partition)
            source, target = join(self._path, name), join(path, name)
            for each in self._files.list(source):
                files.makedirs(target)
                _copy_file(self._files, join(source, each), files, join(target, each))

    def read_files(self, path: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the path of each file in a directory of this one, and its content."""
        for name in self._files.list(join(self._path, path) if path else self._path):
            relative_path = join(path, name) if path else name
            try:
                content = self._files.read(join(self._path, relative_path))
            except OSError:  # a directory
                yield from self.read_files(relative_path)
            else:
                yield relative_path, content

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._files, join(self._path, name))
        except CheckpointError:
            # An empty checkpoint is safe: all logs are recovered, start at their first
            # segment, and are compacted from there.
            return {}

    def _read_boot_id(self) -> str:
        return self._files.read(join(self._path, BOOT_FILE)).decode(errors="replace")

    @property
    def may_have_lost_writes(self) -> bool:
        """Whether unflushed bytes may be lost: the system was restarted, or may have been."""
        return self._boot_id is None or self._recorded_boot_id != self._boot_id

    def end_loading(self) -> None:
        """Record that all logs are loaded: no later loss of written bytes is expected.

        Without the file, which an operator may delete, damaged logs are truncated as by Kafka.
        """
        self._is_loading = False
        boot_id = self._boot_id or ""
        if self._recorded_boot_id != boot_id:
            # Without the file, the next start expects less of the logs.
            with suppress(OSError):
                self._files.write(join(self._path, BOOT_FILE), boot_id.encode())
            self._recorded_boot_id = boot_id

    def write_properties(self, *, cluster_id: str, node_id: int, directory_id: str) -> None:
        """Write meta.properties, which ties the directory to its cluster."""
        self.properties = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": directory_id,
        }
        write_properties(self._files, join(self._path, META_FILE), self.properties)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a directory here."""
        parsed = (parse_partition_directory(name) for name in self._files.list(self._path))
        return [partition for partition in parsed if partition is not None]

    def has_files_of_topics(self, except_topic: str) -> bool:
        """Return whether partitions of topics other than `except_topic` have files."""
        return any(
            self._files.list(join(self._path, partition_directory(topic, index)))
            for topic, index in self.partitions()
            if topic != except_topic
        )

    def names(self) -> Collection[str] | None:
        """Return the names in the directory; None if another name may mean the same file."""
        return None if self.ignores_case else frozenset(self._files.list(self._path))

    def open_log(
        self,
        topic: str,
        index: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: str | None = None,
        is_internal: bool = False,
        names: Collection[str] | None = None,
    ) -> Log:
        """Return a partition's log, recovered if needed; raises OSError when it cannot be read.

        A directory that belonged to another topic of the same name is renamed first. If others
        depend on the records of an `is_internal` log, damage in it is not truncated. `names` is the
        result of `names()`, with which the directories of new logs need not be looked for.
        """
        partition, name = (topic, index), partition_directory(topic, index)
        if partition in self.known_logs:
            return self._copy_known_log(partition, config, is_internal=is_internal)
        path = join(self._path, name)
        is_new = (names is not None and name not in names) or not self._files.list(path)
        if is_new and partition in self._checkpoints[RECOVERY_POINTS_FILE]:
            self._forget_directory(partition)
        if is_new or (topic_id is not None and self._rename_other_topic(name, topic_id)):
            return self._new_log(path, config, topic_id, is_internal=is_internal)
        recovery_point, start_offset, first_dirty_offset = self._stored_offsets(partition, path)
        try:
            log = Log.open(
                self._files,
                path,
                config,
                now_ms=now_ms,
                clean_shutdown=self.was_shut_down_cleanly,
                may_have_lost_writes=self.may_have_lost_writes,
                start_offset=start_offset,
                recovery_point=recovery_point,
                topic_id=topic_id,
                health=self.health,
                is_internal=is_internal and self._recorded_boot_id is not None,
            )
        except OSError as error:
            self.health.report_failure(path, error, FileUse.READING)
            raise
        if all(damage.path != path for damage in log.damage_errors):
            self.health.report_success(path, FileUse.READING)
        log.first_dirty_offset = first_dirty_offset
        self._note_appends(log, is_ordered=is_internal)
        self._flush_later(log)
        return log

    def _note_appends(self, log: Log, *, is_ordered: bool) -> None:
        """Let a log note when it grows, after what it knows already."""
        times, appends = self.append_times, log.appends
        if times is None:
            log.appends = None
        elif appends is None:
            log.appends = LogAppends(times, is_ordered=is_ordered)
        else:
            appends.times = times

    def _flush_later(self, log: Log) -> None:
        """Let a log request its flushes, and request those of segments that it has begun."""
        log.logs_to_flush = self.logs_to_flush
        if log.has_unflushed_segments:
            self.logs_to_flush.add(log)

    def _copy_known_log(
        self, partition: TopicPartition, config: LogConfig, *, is_internal: bool
    ) -> Log:
        """Return a copy of a log whose state in these files is known."""
        log = self.known_logs.pop(partition).copy_to(self._files, self.health)
        log.config = config
        self._note_appends(log, is_ordered=is_internal)
        self._flush_later(log)
        return log

    def _stored_offsets(self, partition: TopicPartition, path: str) -> list[int]:
        """Return the recovery point, start offset and first dirty offset of a log.

        A new cluster without segments begins without the offsets of an earlier one.
        """
        if not self.was_initialized and not any(
            name.endswith(LOG_SUFFIX) for name in self._files.list(path)
        ):
            return [0] * len(self._checkpoints)
        return [offsets.get(partition, 0) for offsets in self._checkpoints.values()]

    def _new_log(
        self, path: str, config: LogConfig, topic_id: str | None, *, is_internal: bool
    ) -> Log:
        """Return an empty log; entries of checkpoints belong to an earlier one."""
        self.health.report_success(path, FileUse.READING)
        log = Log.without_files(self._files, path, config, topic_id, self.health)
        self._note_appends(log, is_ordered=is_internal)
        log.logs_to_flush = self.logs_to_flush
        return log

    def _rename_other_topic(self, name: str, topic_id: str) -> bool:
        """Rename a directory if it belongs to another topic; return whether it does."""
        path = join(self._path, name, PARTITION_METADATA_FILE)
        stored_id = read_partition_metadata(self._files, path)
        belongs_to_another = stored_id is not None and stored_id != topic_id
        if belongs_to_another:
            self._rename_to_stray(name)
        return belongs_to_another

    def _forget_directory(self, partition: TopicPartition) -> None:
        """Report a directory that is missing at the start.

        Later, a new topic has the name of a deleted one. Its offsets are removed from the
        checkpoints: after a crash they would count as those of the new one.
        """
        recovery_points = self._checkpoints[RECOVERY_POINTS_FILE]
        if self._is_loading:
            if recovery_points[partition]:
                self.missing_directories[partition] = recovery_points[partition]
            return
        version = next(self._checkpoint_versions)
        topic = partition[0]
        for name, offsets in tuple(self._checkpoints.items()):
            remaining = {
                each: offset
                for each, offset in offsets.items()
                if each[0] != topic
                or self._files.list(join(self._path, partition_directory(*each)))
            }
            # If the disk refuses, the next checkpoint does it.
            with suppress(OSError):
                run_steps(self._checkpoint(version, name, remaining))

    def move_stray_directories(self, known_partitions: Collection[TopicPartition]) -> None:
        """Rename the directories of unknown partitions.

        They are not removed, as in Kafka. Usually they belong to a deleted topic and remained after
        a crash, but if the metadata was lost they are the only copy of the data.
        """
        for topic, index in self.partitions():
            if (topic, index) not in known_partitions:
                # If the rename fails, the directory stays; it does no harm.
                with suppress(OSError):
                    self._rename_to_stray(partition_directory(topic, index))

    def _rename_to_stray(self, name: str) -> None:
        if not self._files.list(join(self._path, name)):
            self._files.remove_directory(join(self._path, name))
            return
        stray = stray_directory(name, self._files.list(self._path))
        self._files.rename(join(self._path, name), join(self._path, stray))
        self.renamed_directories.append((name, stray))

    def delete_log(self, log: Log) -> None:
        """Delete a log; `remove_deleted` removes its files. Raises OSError if the disk refuses."""
        removed = log.delete()
        if removed is not None:
            self._deleted_paths.append(removed)

    def remove_deleted(self) -> Steps:
        """Yield jobs that remove the files of deleted logs."""
        deleted, self._deleted_paths = self._deleted_paths, []
        for path in deleted:
            # Files that cannot be removed now are removed at the next start.
            with suppress(OSError):
                yield partial(remove_directory_and_files, self._files, path)

    def checkpoint(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the start offset, recovery point and first dirty offset of each log."""
        run_steps(self.checkpoint_steps(logs))

    def checkpoint_steps(self, logs: Mapping[TopicPartition, Log]) -> Steps:
        """Write the checkpoints in steps; yields jobs to run, and None for a pause."""
        version = next(self._checkpoint_versions)
        recovery_points, start_offsets, cleaner_offsets = {}, {}, {}
        for number, (partition, log) in enumerate(logs.items()):
            recovery_points[partition] = log.recovery_point
            if log.start_offset:
                start_offsets[partition] = log.start_offset
            if log.first_dirty_offset:
                cleaner_offsets[partition] = log.first_dirty_offset
            if number % _LOGS_PER_STEP == 0:
                yield None
        for file_name, offsets in (
            (RECOVERY_POINTS_FILE, recovery_points),
            (START_OFFSETS_FILE, start_offsets),
            (CLEANER_OFFSETS_FILE, cleaner_offsets),
        ):
            if file_name in self._uncertain_checkpoints or offsets != self._checkpoints[file_name]:
                yield from self._checkpoint(version, file_name, offsets)

    def _checkpoint(self, version: int, name: str, offsets: dict[TopicPartition, int]) -> Steps:
        """Write a checkpoint in a job, unless a newer version was written already."""
        path = join(self._path, name)
        self._uncertain_checkpoints.add(name)

        def write() -> None:
            with self._write_lock:
                if version > self._written_versions.get(name, -1):
                    write_offsets(self._files, path, offsets)
                    self._written_versions[name] = version

        try:
            yield write
        except OSError as error:
            self.health.report_failure(path, error, FileUse.WRITING)
            raise
        if self._written_versions[name] == version:
            self._checkpoints[name] = offsets
            self._uncertain_checkpoints.discard(name)
        self.health.report_success(path, FileUse.WRITING)

    def copy_logs(
        self, logs: Mapping[TopicPartition, Log], files: Files
    ) -> Mapping[TopicPartition, Log]:
        """Return copies of logs in a copy of the files, for the start of another directory.

        Called after `write_all`. A log that has not changed since the last call has the same copy.
        """
        known = self.known_logs
        copies: dict[TopicPartition, _CopiedLog] = {}
        for partition, log in logs.items():
            if partition in known:
                continue  # its state is constant, and so its own copy
            offsets = log.start_offset, log.recovery_point, log.first_dirty_offset
            copied = self._copies.get(partition)
            if copied is None or copied.log is not log or copied.offsets != offsets:
                copied = _CopiedLog(log, offsets, log.copy_to(files))
            copies[partition] = copied
        self._copies = copies
        return {**known, **{partition: copied.copy for partition, copied in copies.items()}}

    def write_all(self, logs: Mapping[TopicPartition, Log], *, syncs: bool = False) -> None:
        """Write everything that a clean start needs, but the marker; the logs remain open.

        Files in memory need no sync. Raises OSError when that fails, and for a log that has failed
        before.
        """
        for partition, log in logs.items():
            if not log.is_unchanged:
                self._copies.pop(partition, None)
        flushes = self._begin_close(logs)
        if syncs:
            self._sync(flushes)
        for log, flush in flushes:
            log.end_flush(flush, None)
            log.is_unchanged = True
        self.checkpoint(logs)

    @property
    def files(self) -> Files:
        """The file system with the directory."""
        return self._files

    def release_copies(self) -> None:
        """Forget the state of logs in snapshots, whose data could be freed otherwise."""
        self.known_logs, self._copies = {}, {}

    @staticmethod
    def mark_clean_shutdown(files: Files, path: str) -> None:
        """Write the marker of a clean shutdown to a directory, because its files are complete."""
        marker = b'{"version":0,"brokerEpoch":-1}'
        write_atomically(files, join(path, CLEAN_SHUTDOWN_FILE), marker)

    def close(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Close all logs and write the clean shutdown marker; after an OSError it is not written.

        The files of all logs are written first and then synced together.
        """
        try:
            flushes = self._begin_close(logs)
            self._sync(flushes)
            for log, flush in flushes:
                log.end_flush(flush, None)
            self.checkpoint(logs)
            self._write_clean_shutdown_marker()
        finally:
            for log in logs.values():
                log.close_files()
            self._lock.release()

    def _sync(self, flushes: Iterable[tuple[Log, Flush]]) -> None:
        paths = {path for _, flush in flushes for path in (*flush.files, *flush.directories)}
        self._files.sync_all(self._path, paths)

    @staticmethod
    def _begin_close(logs: Mapping[TopicPartition, Log]) -> list[tuple[Log, Flush]]:
        """Write each log's files for a clean start; raises OSError after all logs were tried."""
        flushes, failures = [], []
        for log in logs.values():
            try:
                flush = log.begin_close()
            except OSError as failure:
                failures.append(failure)
            else:
                if flush is not None:
                    flushes.append((log, flush))
        if failures:
            raise failures[0]
        return flushes

    def _write_clean_shutdown_marker(self) -> None:
        self.mark_clean_shutdown(self._files, self._path)

    def restore_clean_shutdown_marker(self) -> None:
        """Write the clean shutdown marker again if there was one, because nothing was written.

        Without it, the next start would treat damage as the result of a crash and truncate it.
        """
        if self.was_shut_down_cleanly:
            self._write_clean_shutdown_marker()

    def release_lock(self) -> None:
        """Unlock the directory without writing; it will be removed or recovered."""
        self._lock.release()


def _copy_file(source: Files, source_path: str, target: Files, target_path: str) -> None:
    """Copy a file in parts: a large part in memory could not be shared when the file grows."""
    read, written = source.open(source_path), target.open(target_path, create=True)
    try:
        for position in range(0, read.size, _COPIED_BYTES):
            written.append([read.pread(_COPIED_BYTES, position)])
    finally:
        read.close()
        written.close()


def _remove_deleted_directories(files: Files, path: str, names: Collection[str]) -> None:
    for name in filter(is_deleted_directory, names):
        # A directory that cannot be removed does no harm.
        with suppress(OSError):
            remove_directory_and_files(files, join(path, name))


def _ignores_case(files: Files, path: str) -> bool:
    """Whether the file system of a directory finds its lock file under a name in upper case."""
    try:
        files.modified_ms(join(path, LOCK_FILE.upper()))
    except FileNotFoundError:
        return False
    return True
