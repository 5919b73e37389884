"""BrokerDirectory: the data directory of a broker process, permanent or temporary."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.protocol.uuids import is_cluster_id, uuid_to_text
from kafkalite.storage.append_times import AppendTimes
from kafkalite.storage.data_directory import META_FILE, DataDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.cluster.state import ClusterState
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.files import Files
    from kafkalite.ports.memory_files import Memory
    from kafkalite.ports.temporary import TemporaryDirectory
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log


MEMORY_PATH: Final = "/kafkalite-memory"
"""The path of a data directory in memory, as clients see it in `log.dirs`."""


STATE_LOADING_FILE: Final = ".kafkalite_state_loading"
"""A file that exists while a declared state is loaded; see `server.declared_data`."""


class BrokerDirectoryError(Exception):
    """A directory that cannot be used; the text is one line."""


class BrokerDirectory:
    """An open data directory, and the id of its cluster.

    Without a path it is a private temporary directory, which is removed when it is closed.
    """

    __slots__ = ("_temporary", "cluster_id", "directory", "is_in_memory", "path")

    def __init__(
        self,
        files: Files,
        path: str | None,
        node_id: int,
        entropy: Entropy,
        *,
        cluster_id: str | None = None,
        is_in_memory: bool = False,
        state: ClusterState | None = None,
        loads_state: bool = False,
    ) -> None:
        """Open, lock and if needed create the directory; raises BrokerDirectoryError.

        `cluster_id` is the id of the cluster; None: a new cluster has a random id. A
        directory that `is_in_memory` is not opened again, so its close writes nothing. `state` has
        the logs in the files. `loads_state` says whether a declared state will be loaded.
        """
        self.is_in_memory = is_in_memory
        self._temporary: TemporaryDirectory | None = None
        try:
            if path is None:
                # Not of a seed: two brokers with one seed may run at the same time.
                self._temporary = new_temporary_directory(SystemEntropy().uuid())
                self.path = self._temporary.path
            else:
                self.path = path
            self.directory = self._open(files, state)
            names = files.list(self.path)
        except OSError as error:
            raise directory_error(path, error) from error
        try:
            self._check_load(names, loads_state=loads_state)
            self.cluster_id = (
                self._create_cluster(node_id, entropy, cluster_id)
                if META_FILE not in names
                else self._read_cluster_id()
            )
            self._check_cluster(cluster_id)
        except BrokerDirectoryError:
            self.directory.release_lock()
            raise

    def _open(self, files: Files, state: ClusterState | None) -> DataDirectory:
        times = None if state is None else state.append_times
        times = AppendTimes() if times is None else times.copy()
        return DataDirectory(files, self.path, None if state is None else state.logs, times)

    @property
    def is_temporary(self) -> bool:
        """Whether the directory is removed when it is closed."""
        return self._temporary is not None

    @property
    def memory(self) -> Memory | None:
        """The memory of the files; None for files on disk."""
        return getattr(self.directory.files, "memory", None)

    def replace_files(self, files: Files, state: ClusterState) -> DataDirectory:
        """Use other files, whose logs have the state that is given; return the directory."""
        self.directory = self._open(files, state)
        return self.directory

    @staticmethod
    def free(replaced: DataDirectory) -> None:
        """Free the memory of a directory that `replace_files` has replaced, and is not used."""
        _free_memory(replaced)

    def close(self, logs: Mapping[TopicPartition, Log] | None) -> None:
        """Close the logs as in a clean shutdown; remove everything if the directory is temporary.

        Without logs (not all of them were opened), the directory remains as it is. A clean-shutdown
        marker or new checkpoints would hide from the next start that it must recover logs.
        """
        if self._temporary is not None:
            self.directory.release_lock()
            for log in (logs or {}).values():
                log.close_files()
            self._temporary.remove()
        elif self.is_in_memory:
            self.directory.release_lock()
            for log in (logs or {}).values():
                log.close_files()
            _free_memory(self.directory)
        elif logs is None:
            self.directory.release_lock()
        else:
            self.directory.close(logs)

    def _create_cluster(self, node_id: int, entropy: Entropy, requested_id: str | None) -> str:
        cluster_id = _checked_id(requested_id) or uuid_to_text(entropy.uuid())
        directory_id = uuid_to_text(entropy.uuid())
        self.directory.write_properties(
            cluster_id=cluster_id, node_id=node_id, directory_id=directory_id
        )
        return cluster_id

    def _check_load(self, names: Sequence[str], *, loads_state: bool) -> None:
        if STATE_LOADING_FILE in names and not loads_state:
            raise BrokerDirectoryError(
                f"data directory {self.path} has a part of a state, because its load was "
                "interrupted: start with --state, which loads it again, or remove the directory"
            )

    def _check_cluster(self, requested_id: str | None) -> None:
        if requested_id not in (None, self.cluster_id):
            raise BrokerDirectoryError(
                f"data directory {self.path} belongs to the cluster {self.cluster_id}, not to "
                f"{requested_id}: use that id, or an empty directory"
            )

    def _read_cluster_id(self) -> str:
        try:
            cluster_id = self.directory.properties["cluster.id"]
            is_valid = is_cluster_id(cluster_id)
        except KeyError:
            is_valid = False
        if not is_valid:
            raise BrokerDirectoryError(
                f"{self.path}/{META_FILE} has no valid cluster.id; restore the file from a copy, "
                "or delete it: the next start then writes a new id, and keeps all topics"
            )
        return cluster_id


def directory_error(path: str | None, error: OSError) -> BrokerDirectoryError:
    """Return the reason why the data directory `path` cannot be used."""
    if isinstance(error, BlockingIOError):
        return BrokerDirectoryError(f"data directory {path} is in use by another broker")
    reason = error.strerror
    if isinstance(error, FileExistsError):
        reason = "it is a file or a link to nothing, not a directory"
    return BrokerDirectoryError(f"cannot use data directory {error.filename or path}: {reason}")


def check_has_no_data(files: Files, path: str, used: str | None) -> None:
    """Raise BrokerDirectoryError if a log directory that is only a name has data of Kafka.

    `used` is the directory with the data of all log directories.
    """
    with suppress(OSError):
        if META_FILE not in files.list(path):
            return
        raise BrokerDirectoryError(
            f"log directory {path} has data of its own, but kafkalite reads only {used}, the first "
            "of log.dirs: move the data there, or name directories without data"
        )


def _free_memory(directory: DataDirectory) -> None:
    """Free the memory of a directory in memory before the garbage collector finds it."""
    from kafkalite.ports.memory_files import InMemoryFiles  # noqa: PLC0415 - not on disk

    directory.release_copies()
    if isinstance(directory.files, InMemoryFiles):
        directory.files.clear()


def _checked_id(cluster_id: str | None) -> str | None:
    if cluster_id is not None and not is_cluster_id(cluster_id):
        raise BrokerDirectoryError(
            f"cluster id {cluster_id!r} is not a UUID in URL-safe base64, such as "
            "5L6g3nShT-eMCtK--X86sw"
        )
    return cluster_id
