# ruff: noqa: PTH102, PTH118
"""Home: where a broker process keeps its data, for good or for as long as it runs.

Paths are plain text and a temporary directory is made by hand: pathlib, tempfile and shutil bring
in random numbers, URLs and archives, which together take as long as all of our own storage.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalite.protocol.uuids import uuid_from_text, uuid_to_text
from kafkalite.storage.directory import META_FILE, DataDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.files import Files
    from kafkalite.storage.directory import PartitionName
    from kafkalite.storage.log import Log


class HomeError(Exception):
    """A directory that cannot be used; the text is one line for people."""


class Home:
    """An open data directory, and the id of the cluster whose it is.

    Without a path it is a private temporary directory, which goes when it is left.
    """

    __slots__ = ("cluster_id", "directory", "is_temporary", "path")

    def __init__(self, files: Files, path: str | None, node_id: int, entropy: Entropy) -> None:
        """Open, lock and if need be create; HomeError when that cannot be."""
        self.is_temporary = path is None
        try:
            self.path = _new_directory(entropy) if path is None else path
            self.directory = DataDirectory(files, self.path)
            is_new = META_FILE not in files.list(self.path)
        except BlockingIOError as error:
            raise HomeError(f"data directory {path} is in use by another broker") from error
        except OSError as error:
            where = error.filename or path
            raise HomeError(f"cannot use data directory {where}: {error.strerror}") from error
        try:
            self.cluster_id = self._new_cluster(node_id, entropy) if is_new else self._cluster()
        except HomeError:
            self.directory.abandon()
            raise

    def leave(self, logs: Mapping[PartitionName, Log] | None) -> None:
        """Close the logs for a clean start, or remove all there is if it was temporary.

        Without logs, for they were not all opened, the directory stays as it is: to call it clean,
        or to write down where logs begin, would take from the next start what it has to go by.
        """
        if self.is_temporary:
            import shutil  # noqa: PLC0415 - see this module's docstring

            self.directory.abandon()
            for log in (logs or {}).values():
                log.close()
            shutil.rmtree(self.path, ignore_errors=True)
        elif logs is None:
            self.directory.abandon()
        else:
            self.directory.close(logs)

    def _new_cluster(self, node_id: int, entropy: Entropy) -> str:
        cluster_id = uuid_to_text(entropy.uuid())
        directory_id = uuid_to_text(entropy.uuid())
        self.directory.write_properties(
            cluster_id=cluster_id, node_id=node_id, directory_id=directory_id
        )
        return cluster_id

    def _cluster(self) -> str:
        try:
            cluster_id = self.directory.properties["cluster.id"]
            uuid_from_text(cluster_id)
        except (KeyError, ValueError) as error:
            raise HomeError(f"{self.path}/{META_FILE} names no cluster.id") from error
        return cluster_id


def _new_directory(entropy: Entropy) -> str:
    """Make a directory that nobody else can read, where the system keeps what is temporary."""
    name = f"kafkalite-{entropy.uuid().hex()}"
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)  # noqa: S108 - a name of its own
    os.mkdir(path, 0o700)
    return path
