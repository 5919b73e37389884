"""Disks for tests: one in memory that can lose power, and one that fails at a step of choice.

`MemoryFiles` knows what was synced. `FaultyFiles` counts every step that changes the disk; at the
chosen one it writes a part of what was asked, and then either refuses (a full disk) or dies (a
crash), after which nothing works any more.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.ports.files import Buffer


class CrashedError(BaseException):
    """The process ends here; nothing that handles errors may catch it."""


class _Content:
    """A file's bytes, and how many of them are on the platter."""

    __slots__ = ("data", "synced_size")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced_size = len(data)


class MemoryFile:
    """A file in memory."""

    __slots__ = ("_content",)

    def __init__(self, content: _Content) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._content.data)

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end."""
        for buffer in buffers:
            self._content.data += buffer

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        return bytes(self._content.data[position : position + size])

    def sync(self) -> None:
        """Let the bytes survive a loss of power."""
        self._content.synced_size = len(self._content.data)

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes."""
        del self._content.data[size:]
        self._content.synced_size = min(self._content.synced_size, size)

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


class MemoryLock:
    """A lock that always was free."""

    def release(self) -> None:
        """Do nothing."""


class MemoryFiles:
    """A file system in memory; names are durable at once, bytes when they are synced."""

    def __init__(self) -> None:
        self._contents: dict[str, _Content] = {}
        self._directories: set[str] = set()
        self.now_ms = 0

    @property
    def paths(self) -> list[str]:
        """The paths of all files, sorted."""
        return sorted(self._contents)

    def without_power(self, surviving: Callable[[int], int]) -> MemoryFiles:
        """Return the disk as it is after a loss of power.

        `surviving` is told how many bytes of a file were not synced, and says how many of them,
        from the front, are there nevertheless.
        """
        after = MemoryFiles()
        after._directories = set(self._directories)
        for path, content in self._contents.items():
            unsynced = len(content.data) - content.synced_size
            size = content.synced_size + surviving(unsynced)
            after._contents[path] = _Content(bytes(content.data[:size]))
        return after

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Return the file at `path`; FileNotFoundError when absent and not to be created."""
        if path not in self._contents:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if path.rpartition("/")[0] not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            self._contents[path] = _Content()
        return MemoryFile(self._contents[path])

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; FileNotFoundError when absent."""
        return self.open(path).pread(1 << 40, 0)

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""
        prefix = path + "/"
        paths = (*self._contents, *self._directories)
        names = {name[len(prefix) :].partition("/")[0] for name in paths if name.startswith(prefix)}
        return sorted(names)

    def modified_ms(self, path: str) -> int:
        """Return `now_ms`: files in memory keep no time of their own."""
        self.open(path)
        return self.now_ms

    def rename(self, old: str, new: str) -> None:
        """Move the file or directory at `old` to `new`."""
        if old in self._contents:
            self._contents[new] = self._contents.pop(old)
            return
        if old not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        moved = {path for path in self._directories if path == old or path.startswith(old + "/")}
        self._directories -= moved
        self._directories |= {new + path[len(old) :] for path in moved}
        for path in [path for path in self._contents if path.startswith(old + "/")]:
            self._contents[new + path[len(old) :]] = self._contents.pop(path)

    def remove(self, path: str) -> None:
        """Remove the file at `path`; harmless when it is absent."""
        self._contents.pop(path, None)

    def makedirs(self, path: str) -> None:
        """Make the directory at `path` and those above it; harmless when it exists."""
        while path and path not in self._directories:
            self._directories.add(path)
            path = path.rpartition("/")[0]

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path`, which is empty; harmless when it is absent."""
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self._directories.discard(path)

    def sync_directory(self, path: str) -> None:
        """Do nothing: names are durable at once."""

    def lock(self, path: str) -> MemoryLock:
        """Return a lock on the file at `path`."""
        self.open(path, create=True)
        return MemoryLock()


class FaultyFiles:
    """`disk`, until the step `fail_at`; steps that change the disk are counted from 0.

    Of an append that fails, `part` of its bytes are written, from 0 to 1. With `crash` set nothing
    works from then on; otherwise the step raises ENOSPC, and so do the `refusals` - 1 after it.
    """

    def __init__(
        self,
        disk: MemoryFiles,
        *,
        fail_at: int | None = None,
        part: float = 0.5,
        crash: bool = True,
        refusals: int = 1,
    ) -> None:
        self.disk = disk
        self.steps = 0
        self._fail_at = fail_at
        self._part = part
        self._crash = crash
        self._refusals = refusals
        self._is_dead = False

    def step(self, partly: Callable[[float], None] | None = None) -> None:
        """Count a step that changes the disk, and fail if it is the chosen one."""
        if self._is_dead:
            raise CrashedError
        step, self.steps = self.steps, self.steps + 1
        if self._fail_at is None or not self._fail_at <= step < self._fail_at + self._refusals:
            return
        if partly is not None:
            partly(self._part)
        if self._crash:
            self._is_dead = True
            raise CrashedError
        raise OSError(errno.ENOSPC, "no space left on device")

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        """Return the file at `path`; creating one is a step."""
        if create and path not in self.disk.paths:
            self.step()
        return FaultyFile(self, self.disk.open(path, create=create))

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`."""
        return self.disk.read(path)

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`."""
        return self.disk.list(path)

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed."""
        return self.disk.modified_ms(path)

    def rename(self, old: str, new: str) -> None:
        """Move the file or directory at `old` to `new`: a step."""
        self.step()
        self.disk.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove the file at `path`: a step, if it is there."""
        if path in self.disk.paths:
            self.step()
        self.disk.remove(path)

    def makedirs(self, path: str) -> None:
        """Make the directory at `path`: a step."""
        self.step()
        self.disk.makedirs(path)

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path`: a step."""
        self.step()
        self.disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """Sync the names in the directory at `path`: a step."""
        self.step()
        self.disk.sync_directory(path)

    def lock(self, path: str) -> MemoryLock:
        """Return a lock on the file at `path`."""
        return self.disk.lock(path)


class FaultyFile:
    """A file of `FaultyFiles`."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: FaultyFiles, file: MemoryFile) -> None:
        self._files = files
        self._file = file

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._file.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end: a step, which may be done in part."""
        data = b"".join(buffers)
        self._files.step(lambda part: self._file.append([data[: int(len(data) * part)]]))
        self._file.append([data])

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        return self._file.pread(size, position)

    def sync(self) -> None:
        """Let the bytes survive a loss of power: a step."""
        self._files.step()
        self._file.sync()

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes: a step."""
        self._files.step()
        self._file.truncate(size)

    def close(self) -> None:
        """Do nothing: there is no descriptor."""
