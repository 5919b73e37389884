"""ReadOnlyFiles: files of the operating system that are only read.

Changes have an effect for the reader only: a truncated file ends earlier, a removed one is absent,
and a renamed one has its new name. A file that is written is absent, too, because what reads it can
make it again. So a log whose process was killed can be recovered without a change of its files.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kafkalite.ports.files import OsFile, OsFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.ports.files import Buffer

_WRITING = os.O_CREAT | os.O_TRUNC | os.O_WRONLY


class ReadOnlyFile(OsFile):
    """A file that is only read."""

    __slots__ = ()

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Raise OSError."""
        del buffers
        raise _read_only(self.path)

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        return super().pread(max(0, min(size, self.size - position)), position)

    def truncate(self, size: int) -> None:
        """End earlier, for this object."""
        self.size = min(size, self.size)


class UnheldLock:
    """A lock that is not taken, because nothing is changed."""

    def release(self) -> None:
        """Do nothing."""


class ReadOnlyFiles(OsFiles):
    """The operating system's files, without any change of them."""

    def __init__(self) -> None:
        super().__init__(is_durable=False)
        self._removed: set[str] = set()
        self._renamed: dict[str, str] = {}
        """Path → path of the file that was renamed to it."""

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        """Return the file at `path`; raises FileNotFoundError if it is absent."""
        del create
        source = self._source(path)
        return ReadOnlyFile(self, source, os.stat(source).st_size)  # noqa: PTH116 - paths are text here

    def descriptor(self, path: str, flags: int) -> int:
        """Return a new descriptor that only reads; raises OSError if the file is to be written."""
        if flags & _WRITING:
            raise _read_only(path)
        return super().descriptor(path, os.O_RDONLY)

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; raises FileNotFoundError when absent."""
        return super().read(self._source(path))

    def write(self, path: str, content: Buffer) -> None:
        """Let the file be absent."""
        del content
        self.remove(path)

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""
        prefix = f"{path}/"
        added = {
            each.removeprefix(prefix)
            for each in self._renamed
            if each.startswith(prefix) and "/" not in each.removeprefix(prefix)
        }
        removed = {each.removeprefix(prefix) for each in self._removed if each.startswith(prefix)}
        return sorted(({*super().list(path)} - removed) | added)

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""
        return super().modified_ms(self._source(path))

    def rename(self, old: str, new: str) -> None:
        """Let the file have its new name."""
        source = self._source(old)
        self.remove(old)
        self._removed.discard(new)
        self._renamed[new] = source

    def remove(self, path: str) -> None:
        """Let the file be absent."""
        self._renamed.pop(path, None)
        self._removed.add(path)

    def makedirs(self, path: str) -> None:
        """Do nothing."""

    def mkdir(self, path: str) -> None:
        """Raise OSError."""
        raise _read_only(path)

    def remove_directory(self, path: str) -> None:
        """Do nothing."""

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Do nothing."""

    def lock(self, path: str) -> UnheldLock:
        """Return a lock that is not held."""
        del path
        return UnheldLock()

    def _source(self, path: str) -> str:
        """Return the path of the file that has a name; raises FileNotFoundError."""
        if path in self._removed:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._renamed.get(path, path)


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), path)
