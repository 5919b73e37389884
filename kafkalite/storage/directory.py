"""The data directory: what lies beside the partitions, and how a stop is known to be clean.

The marker is taken away before anything is written and put back after everything was: whoever
finds it may believe the files. Checkpoints say from where on a log must be read through when it
is not there, and where a log begins.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.checkpoint import (
    CheckpointError,
    read_offsets,
    read_partition_metadata,
    read_properties,
    write_atomically,
    write_offsets,
    write_properties,
)
from kafkalite.storage.log import PARTITION_METADATA_FILE, Log
from kafkalite.storage.naming import (
    is_deleted_directory,
    parse_partition_directory,
    partition_directory,
    remove_tree,
    stray_directory,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.files import Files, Lock

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
META_FILE = "meta.properties"
RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSETS_FILE = "cleaner-offset-checkpoint"

PartitionName = tuple[str, int]
"""Topic and index."""


class DataDirectory:
    """A directory that holds the logs of one cluster, in use by this process alone."""

    __slots__ = (
        "_cleaner_offsets",
        "_files",
        "_lock",
        "_path",
        "_recovery_points",
        "_start_offsets",
        "properties",
        "set_aside",
        "was_clean",
    )

    def __init__(self, files: Files, path: str) -> None:
        """Open the directory at `path`, made if need be; OSError when it cannot be used.

        BlockingIOError when another process has it.
        """
        self._files = files
        self._path = path
        files.makedirs(path)
        self._lock: Lock = files.lock(join(path, LOCK_FILE))
        self.properties = read_properties(files, join(path, META_FILE))
        names = files.list(path)
        self.was_clean = CLEAN_SHUTDOWN_FILE in names
        if self.was_clean:
            files.remove(join(path, CLEAN_SHUTDOWN_FILE))
            files.sync_directory(path)
        for name in names:
            if is_deleted_directory(name):
                # What cannot be removed is in nobody's way.
                with suppress(OSError):
                    remove_tree(files, join(path, name))
        self.set_aside: list[tuple[str, str]] = []
        """Directories of partitions that nobody knew: what they were called, and are now."""
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS_FILE)
        self._start_offsets = self._read_checkpoint(START_OFFSETS_FILE)
        self._cleaner_offsets = self._read_checkpoint(CLEANER_OFFSETS_FILE)

    @property
    def path(self) -> str:
        """Where the directory is."""
        return self._path

    def _read_checkpoint(self, name: str) -> dict[PartitionName, int]:
        try:
            return read_offsets(self._files, join(self._path, name))
        except CheckpointError:
            # Each has a safe reading as empty: recover everything, begin where the files begin,
            # clean from the start.
            return {}

    def write_properties(self, *, cluster_id: str, node_id: int, directory_id: str) -> None:
        """Write meta.properties, which ties the directory to its cluster."""
        self.properties = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": directory_id,
        }
        write_properties(self._files, join(self._path, META_FILE), self.properties)

    def partitions(self) -> list[PartitionName]:
        """Return the partitions that have a directory here."""
        names = (parse_partition_directory(name) for name in self._files.list(self._path))
        return [name for name in names if name is not None]

    def open_log(
        self,
        topic: str,
        index: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: str | None = None,
    ) -> Log:
        """Return a partition's log, recovered if need be; OSError when it cannot be read.

        A directory that belonged to another topic of that name is set aside first.
        """
        directory = partition_directory(topic, index)
        path = join(self._path, directory)
        name = (topic, index)
        is_new = not self._files.list(path)
        if not is_new and topic_id is not None:
            found_id = read_partition_metadata(self._files, join(path, PARTITION_METADATA_FILE))
            if found_id is not None and found_id != topic_id:
                self._set_aside(directory)
                is_new = True
        # What the checkpoints say of a directory that is not there was said of another topic.
        log = Log.open(
            self._files,
            path,
            config,
            now_ms=now_ms,
            clean_shutdown=self.was_clean,
            start_offset=0 if is_new else self._start_offsets.get(name, 0),
            recovery_point=0 if is_new else self._recovery_points.get(name, 0),
            topic_id=topic_id,
        )
        log.first_dirty_offset = 0 if is_new else self._cleaner_offsets.get(name, 0)
        return log

    def set_strays_aside(self, known: Collection[PartitionName]) -> None:
        """Give the directories of partitions that are not known another name.

        Chosen, as in Kafka, instead of removing them: mostly they are what a crash left of a topic
        that was deleted, but should the metadata be lost they are all there is of the data.
        """
        for topic, index in self.partitions():
            if (topic, index) not in known:
                # One that the disk does not let go of stays: nobody knows it, and nobody asks.
                with suppress(OSError):
                    self._set_aside(partition_directory(topic, index))

    def _set_aside(self, name: str) -> None:
        if not self._files.list(join(self._path, name)):
            self._files.remove_directory(join(self._path, name))
            return
        stray = stray_directory(name, self._files.list(self._path))
        self._files.rename(join(self._path, name), join(self._path, stray))
        self.set_aside.append((name, stray))

    def checkpoint(self, logs: Mapping[PartitionName, Log]) -> None:
        """Write where each log begins, is known to be whole, and was compacted up to."""
        recovery_points = {name: log.recovery_point for name, log in logs.items()}
        start_offsets = {name: log.start_offset for name, log in logs.items() if log.start_offset}
        cleaner_offsets = {
            name: log.first_dirty_offset for name, log in logs.items() if log.first_dirty_offset
        }
        self._recovery_points = self._checkpoint(
            RECOVERY_POINTS_FILE, self._recovery_points, recovery_points
        )
        self._start_offsets = self._checkpoint(
            START_OFFSETS_FILE, self._start_offsets, start_offsets
        )
        self._cleaner_offsets = self._checkpoint(
            CLEANER_OFFSETS_FILE, self._cleaner_offsets, cleaner_offsets
        )

    def _checkpoint(
        self, name: str, old: dict[PartitionName, int], new: dict[PartitionName, int]
    ) -> dict[PartitionName, int]:
        if new != old:
            write_offsets(self._files, join(self._path, name), new)
        return new

    def close(self, logs: Mapping[PartitionName, Log]) -> None:
        """Close all the logs and leave the marker of a clean stop; OSError leaves none."""
        failures = []
        try:
            for log in logs.values():
                try:
                    log.close()
                except OSError as failure:
                    failures.append(failure)
            if failures:
                raise failures[0]
            self.checkpoint(logs)
            marker = b'{"version":0,"brokerEpoch":-1}'
            write_atomically(self._files, join(self._path, CLEAN_SHUTDOWN_FILE), marker)
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Let the directory go as it is, for one that is to be removed or recovered."""
        self._lock.release()
