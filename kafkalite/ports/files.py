# ruff: noqa: PTH103, PTH106, PTH108, PTH116, PTH208
"""Files: the operations on a file system that a log needs.

Files are only appended to, read at a position, truncated, renamed and removed. With so
few operations, a test can replace the disk and make every single step fail.

An `OsFile` has no descriptor until it is used, and `OsFiles` closes the least recently used ones,
so a thousand idle partitions cost neither descriptors nor system calls.
"""

from __future__ import annotations

import errno
import os  # with paths as plain text: pathlib costs more than the system calls do
import re
import sys
import threading
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalite.ports import system
from kafkalite.ports.locks import lock_data
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kafkalite.ports.locks import Lock

Buffer: TypeAlias = bytes | bytearray | memoryview

_MAX_VECTORS = 1024  # IOV_MAX wherever Python runs
_MAX_OPEN = 512
_pread = system.pread
_writev = system.writev
_TOO_MANY_OPEN = frozenset((errno.EMFILE, errno.ENFILE))
_MAX_SINGLE_SYNCS = 64
"""Up to this many paths are synced one by one, without the files of other applications."""
_SYNC_THREADS = 8
_MIN_LINUX_FOR_SYNCFS = (5, 8)
"""The first version of Linux whose syncfs(2) reports that data could not be written."""


class File(Protocol):
    """One existing file."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end; on OSError some bytes may have been written."""

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""

    def is_in_place(self) -> bool:
        """Whether the file is still at its path, not deleted or moved away."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def close(self) -> None:
        """Close the descriptor; the next use opens it again."""


class Files(Protocol):
    """A file system; every failure is an OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Return the file at `path`; raises FileNotFoundError if absent and `create` is not set."""

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; raises FileNotFoundError when absent."""

    def write(self, path: str, content: Buffer) -> None:
        """Replace the file at `path`; on OSError and after a crash it may hold only a part.

        Any thread may call this.
        """

    def boot_id(self) -> str | None:
        """Return an id that changes when unsynced bytes may be lost, None if it is unknown."""

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""

    def disk_space(self, path: str) -> DiskSpace:
        """Return the size of the file system that holds the directory at `path`."""

    def rename(self, old: str, new: str) -> None:
        """Rename the file or directory `old` to `new` atomically, replacing a file there."""

    def remove(self, path: str) -> None:
        """Remove the file at `path`; no effect if it is absent."""

    def makedirs(self, path: str) -> None:
        """Create the directory at `path` and its parents; no effect if it exists."""

    def mkdir(self, path: str) -> None:
        """Create the directory at `path`; no effect if it exists.

        Raises FileNotFoundError when its parent is absent.
        """

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`; no effect if it is absent."""

    def sync(self, path: str) -> None:
        """Sync the content of the file at `path`, so that it survives a loss of power.

        Any thread may call this; raises FileNotFoundError when the file is absent.
        """

    def sync_directory(self, path: str) -> None:
        """Sync the names in the directory at `path`, so that they survive a loss of power.

        Any thread may call this.
        """

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Sync all files and directories at `paths`, so that they survive a loss of power.

        All are in `directory` or below it.
        """

    def lock(self, path: str) -> Lock:
        """Lock the file at `path`, created if needed; raises BlockingIOError if it is locked."""


def join(*parts: str) -> str:
    """Return the parts joined to a path."""
    return "/".join(parts)


class OsFile:
    """A file of the operating system, opened when it is used."""

    __slots__ = ("_fd", "_files", "path", "size", "was_used")

    def __init__(self, files: OsFiles, path: str, size: int) -> None:
        self.path = path
        self.was_used = False
        self._files = files
        self._fd = -1
        self.size = size
        """Length in bytes."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end; on OSError some bytes may have been written."""
        fd = self._fd
        if fd >= 0:
            self.was_used = True
        else:
            fd = self._descriptor()
        total = sum(map(len, buffers))
        written = _writev(fd, buffers) if len(buffers) <= _MAX_VECTORS else 0
        self.size += written
        if written != total:
            self._append_remaining(fd, buffers, written)

    def _append_remaining(self, fd: int, buffers: Sequence[Buffer], written: int) -> None:
        # A full disk, a limit or a signal can shorten a write. Only another write shows the reason.
        for buffer in buffers:
            view = memoryview(buffer)[written:]
            written = max(0, written - len(buffer))
            while view:
                count = os.write(fd, view)
                if count == 0:
                    raise OSError(errno.EIO, "a write made no progress", self.path)
                self.size += count
                view = view[count:]

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        return _pread(self._descriptor(), size, position)

    def is_in_place(self) -> bool:
        """Whether the file is still at its path, not deleted or moved away.

        A different inode is not proof of a move: some file systems renumber inodes.
        """
        try:
            path_status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if self._fd < 0:
            return True
        open_status = os.fstat(self._fd)
        return open_status.st_nlink > 0 or open_status.st_ino == path_status.st_ino

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        fd = self._descriptor()
        os.ftruncate(fd, size)
        self.size = size

    def close(self) -> None:
        """Close the descriptor; the next use opens it again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.remove_open_file(self)
            os.close(fd)

    def _descriptor(self) -> int:
        if self._fd >= 0:
            self.was_used = True
        else:
            self._files.make_room()
            self._fd = self._files.descriptor(self.path, os.O_RDWR | os.O_APPEND)
            self._files.add_open_file(self)
        return self._fd


class OsFiles:
    """The operating system's files; at most `max_open` of them have a descriptor.

    Without `is_durable`, nothing is synced: files that are removed when the process ends need
    not survive a loss of power. With `closes_renamed`, files are closed before they are renamed or
    removed, because Windows refuses that for open files.
    """

    def __init__(
        self,
        max_open: int = _MAX_OPEN,
        *,
        is_durable: bool = True,
        closes_renamed: bool = system.IS_WINDOWS,
    ) -> None:
        self.is_durable = is_durable
        self._max_open = max_open
        self._closes_renamed = closes_renamed
        self._open: dict[OsFile, None] = {}
        self._thread = threading.get_ident()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Return the file at `path`; raises FileNotFoundError if absent and `create` is not set."""
        if create:
            os.close(self.descriptor(path, os.O_RDWR | os.O_CREAT))
        return OsFile(self, path, os.stat(path).st_size)

    def descriptor(self, path: str, flags: int) -> int:
        """Return a new descriptor of the file at `path`.

        If the process has no more descriptors, because connections use some as well, the least
        recently used file is closed. Only the thread that made this object can do that; other
        threads get the OSError.
        """
        while True:
            try:
                return os.open(path, flags | system.OPEN_FLAGS, 0o644)
            except OSError as error:
                if error.errno not in _TOO_MANY_OPEN or not self._open:
                    raise
                if threading.get_ident() != self._thread:
                    raise
                self._close_one()

    def make_room(self) -> None:
        """Close least recently used files until one more file may be open."""
        while len(self._open) >= self._max_open:
            self._close_one()

    def _close_one(self) -> None:
        # Second chance: the oldest is closed, unless it was used since it was last examined.
        while (oldest := next(iter(self._open))).was_used:
            oldest.was_used = False
            del self._open[oldest]
            self._open[oldest] = None
        oldest.close()

    def add_open_file(self, file: OsFile) -> None:
        """Add `file` to the open files."""
        self._open[file] = None

    def remove_open_file(self, file: OsFile) -> None:
        """Remove `file` from the open files."""
        self._open.pop(file, None)

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; raises FileNotFoundError when absent."""
        with open(path, "rb", opener=self.descriptor) as file:
            return file.read()

    def write(self, path: str, content: Buffer) -> None:
        """Replace the file at `path`; on OSError and after a crash it may hold only a part.

        Any thread may call this.
        """
        fd = self.descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)

    def boot_id(self) -> str | None:
        """Return the id of the system's start."""
        return system.boot_id()

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def disk_space(self, path: str) -> DiskSpace:
        """Return the size of the file system that holds the directory at `path`."""
        return disk_space(path)

    def rename(self, old: str, new: str) -> None:
        """Rename the file or directory `old` to `new` atomically, replacing a file there."""
        if self._closes_renamed:
            self._close_at(old)
            self._close_at(new)
        system.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove the file at `path`; no effect if it is absent."""
        if self._closes_renamed:
            self._close_at(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def _close_at(self, path: str) -> None:
        """Close the open files at `path` and in the directory at `path`."""
        if threading.get_ident() == self._thread:
            for file in [file for file in self._open if _is_at(file.path, path)]:
                file.close()

    def makedirs(self, path: str) -> None:
        """Create the directory at `path` and its parents; no effect if it exists."""
        os.makedirs(path, exist_ok=True)

    def mkdir(self, path: str) -> None:
        """Create the directory at `path`, whose parent must exist; no effect if it exists."""
        try:
            os.mkdir(path)  # noqa: PTH102 - paths are plain text here
        except FileExistsError:
            return

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`; no effect if it is absent."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def sync(self, path: str) -> None:
        """Sync the content of the file at `path`, so that it survives a loss of power.

        Any thread may call this; raises FileNotFoundError when the file is absent.
        """
        if self.is_durable:
            self._sync(path, system.sync_data)

    def sync_directory(self, path: str) -> None:
        """Sync the names in the directory at `path`, so that they survive a loss of power.

        Any thread may call this.
        """
        if self.is_durable and not system.IS_WINDOWS:
            self._sync(path, os.fsync)

    def _sync(self, path: str, sync: Callable[[int], None]) -> None:
        # A separate descriptor, because another thread may close the one of an OsFile.
        fd = self.descriptor(path, system.SYNC_FLAGS)
        try:
            sync(fd)
        finally:
            os.close(fd)

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Sync all files and directories at `paths`, so that they survive a loss of power.

        Many paths are synced with their whole file system, in one system call, because the sync of
        each path takes a millisecond or more. Systems without such a call sync them in parallel.
        """
        if not self.is_durable:
            return
        if system.IS_WINDOWS:  # it syncs the names in a directory by itself
            paths = [path for path in paths if not os.path.isdir(path)]  # noqa: PTH112 - as above
        if len(paths) <= _MAX_SINGLE_SYNCS:
            for path in paths:
                self._sync(path, os.fsync)
            return
        syncfs = _file_system_sync()
        if syncfs is not None:
            self._sync(directory, syncfs)
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - rarely used

        with ThreadPoolExecutor(_SYNC_THREADS) as pool:
            for _ in pool.map(lambda path: self._sync(path, os.fsync), paths):
                pass

    def lock(self, path: str) -> Lock:
        """Lock the file at `path`, created if needed; raises BlockingIOError if it is locked."""
        return lock_data(path)


def _file_system_sync() -> Callable[[int], None] | None:
    """Return syncfs(2), or None where it is absent or does not report errors: before Linux 5.8."""
    if not sys.platform.startswith("linux"):
        return None
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if not match or (int(match[1]), int(match[2])) < _MIN_LINUX_FOR_SYNCFS:
        return None
    import ctypes  # noqa: PLC0415 - needed only at the end of a process

    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def sync(fd: int) -> None:
        if syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync


class DiskSpace(NamedTuple):
    """Bytes on the file system of a directory; -1 where they are unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


def disk_space(directory: str) -> DiskSpace:
    """Return the size of the file system that holds `directory`, and its free bytes."""
    try:
        if not hasattr(os, "statvfs"):
            return _windows_disk_space(directory)
        usage = os.statvfs(directory)
    except OSError:
        return DiskSpace()
    return DiskSpace(usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize)


def _windows_disk_space(directory: str) -> DiskSpace:
    import shutil  # noqa: PLC0415 - slow to import

    usage = shutil.disk_usage(directory)
    return DiskSpace(usage.total, usage.free)


def _is_at(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
