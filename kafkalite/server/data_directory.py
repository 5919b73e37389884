"""The directory that one broker process owns: locked while it runs, named after its cluster.

Its `meta.properties` is Kafka's own, so that a cluster keeps its id and Kafka's tools know it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.protocol.uuids import uuid_from_text, uuid_to_text

try:
    import fcntl
except ImportError:  # Windows has no such lock; there nothing guards the directory
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.ports.entropy import Entropy

LOCK = ".lock"
META_PROPERTIES = "meta.properties"


class DataDirectoryError(Exception):
    """A directory that cannot be used; the text is one line for people."""


class DataDirectory:
    """An open data directory; without a path, a private temporary one that `close` removes."""

    __slots__ = ("_lock", "cluster_id", "is_temporary", "path")

    def __init__(self, path: str | os.PathLike[str] | None, node_id: int, entropy: Entropy) -> None:
        """Open, lock and if need be create; DataDirectoryError when that cannot be."""
        self.is_temporary = path is None
        self._lock = -1
        try:
            self.path = Path(tempfile.mkdtemp(prefix="kafkalite-") if path is None else path)
            self.path.mkdir(parents=True, exist_ok=True)
            os.listdir(self.path)  # noqa: PTH208 - only to see that we may
            self._lock = self._locked()
            self.cluster_id = self._cluster_id(node_id, entropy)
        except OSError as error:
            self.close()
            raise DataDirectoryError(
                f"cannot use data directory {error.filename or path}: {error.strerror}"
            ) from error
        except DataDirectoryError:
            self.close()
            raise

    def close(self) -> None:
        """Give the directory up, and remove it if it was temporary."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self.is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def _locked(self) -> int:
        """Return the descriptor whose life is the lock's: a process that dies gives it up."""
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise DataDirectoryError(
                f"data directory {self.path} is in use by another broker"
            ) from error
        return lock

    def _cluster_id(self, node_id: int, entropy: Entropy) -> str:
        meta = self.path / META_PROPERTIES
        try:
            found = _properties(meta.read_text(encoding="utf-8"))
        except FileNotFoundError:
            cluster_id = uuid_to_text(entropy.uuid())
            directory_id = uuid_to_text(entropy.uuid())
            text = (
                f"cluster.id={cluster_id}\ndirectory.id={directory_id}\n"
                f"node.id={node_id}\nversion=1\n"
            )
            # Written aside and renamed: half a file would make the directory unusable.
            draft = meta.with_suffix(".tmp")
            draft.write_text(text, encoding="utf-8")
            draft.replace(meta)
            return cluster_id
        except UnicodeDecodeError as error:
            raise DataDirectoryError(f"{meta} is not text") from error
        try:
            cluster_id = found["cluster.id"]
            uuid_from_text(cluster_id)
        except (KeyError, ValueError) as error:
            raise DataDirectoryError(f"{meta} names no cluster.id") from error
        return cluster_id


def _properties(text: str) -> Mapping[str, str]:
    """Read the plain `key=value` lines that Kafka and we write here."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, found, value in pairs if found}
