# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH116, PTH208
"""Disks come in by this door: the few things a log needs of a file system.

Files are only ever appended to, read at a place, cut short, renamed and removed. That is little
enough for a test to stand in for the disk and to fail at every single step.

An `OsFile` holds no descriptor until it is used, and `OsFiles` closes the ones that were not
used lately, so that a thousand idle partitions cost neither descriptors nor system calls.
"""

from __future__ import annotations

import errno
import fcntl
import os  # with paths as plain text: pathlib costs more than the system calls do
import struct
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Buffer: TypeAlias = bytes | bytearray | memoryview

_MAX_VECTORS = 1024  # IOV_MAX wherever Python runs
_MAX_OPEN = 512
_NO_MORE_OPEN = frozenset((errno.EMFILE, errno.ENFILE))
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class File(Protocol):
    """One file, which exists."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end; on OSError some bytes may have been written."""

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""

    def sync(self) -> None:
        """Return when all that was appended would survive a loss of power."""

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes."""

    def close(self) -> None:
        """Let the descriptor go; the next use opens it again."""


class Lock(Protocol):
    """A lock that this process holds."""

    def release(self) -> None:
        """Let the lock go."""


class Files(Protocol):
    """A file system; every failure is an OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Return the file at `path`; FileNotFoundError when absent and not to be created."""

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; FileNotFoundError when absent."""

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""

    def rename(self, old: str, new: str) -> None:
        """Move the file or directory at `old` to `new` in one step, replacing a file there."""

    def remove(self, path: str) -> None:
        """Remove the file at `path`; harmless when it is absent."""

    def makedirs(self, path: str) -> None:
        """Make the directory at `path` and those above it; harmless when it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path`, which is empty; harmless when it is absent."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory at `path` would survive a loss of power."""

    def lock(self, path: str) -> Lock:
        """Lock the file at `path`, made if need be; BlockingIOError when another process has it."""


def join(*parts: str) -> str:
    """Return a path made of `parts`."""
    return "/".join(parts)


class OsFile:
    """A file of the operating system, opened when it is used."""

    __slots__ = ("_fd", "_files", "_size", "path", "used")

    def __init__(self, files: OsFiles, path: str, size: int) -> None:
        self.path = path
        self.used = False
        self._files = files
        self._fd = -1
        self._size = size

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end; on OSError some bytes may have been written."""
        fd = self._descriptor()
        wanted = sum(map(len, buffers))
        written = os.writev(fd, buffers) if len(buffers) <= _MAX_VECTORS else 0
        self._size += written
        if written != wanted:
            self._append_rest(fd, buffers, written)

    def _append_rest(self, fd: int, buffers: Sequence[Buffer], written: int) -> None:
        # A write is cut short by a full disk, a limit, or a signal; only trying on tells which.
        for buffer in buffers:
            view = memoryview(buffer)[written:]
            written = max(0, written - len(buffer))
            while view:
                count = os.write(fd, view)
                if count == 0:
                    raise OSError(errno.EIO, "a write made no progress", self.path)
                self._size += count
                view = view[count:]

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        return os.pread(self._descriptor(), size, position)

    def sync(self) -> None:
        """Return when all that was appended would survive a loss of power."""
        if self._files.is_lasting:
            _sync_data(self._descriptor())

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes."""
        fd = self._descriptor()
        os.ftruncate(fd, size)
        self._size = size

    def close(self) -> None:
        """Let the descriptor go; the next use opens it again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.forget(self)
            os.close(fd)

    def _descriptor(self) -> int:
        if self._fd >= 0:
            self.used = True
        else:
            self._files.make_room()
            self._fd = self._files.descriptor(self.path, os.O_RDWR | os.O_APPEND)
            self._files.remember(self)
        return self._fd


class OsFiles:
    """The operating system's files, at most `max_open` of them with a descriptor.

    Where nothing has to last, nothing is forced onto the disk: files that are removed when their
    process ends would not be looked for after a loss of power.
    """

    def __init__(self, max_open: int = _MAX_OPEN, *, is_lasting: bool = True) -> None:
        self.is_lasting = is_lasting
        self._max_open = max_open
        self._open: dict[OsFile, None] = {}

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Return the file at `path`; FileNotFoundError when absent and not to be created."""
        if create:
            os.close(self.descriptor(path, os.O_RDWR | os.O_CREAT))
        return OsFile(self, path, os.stat(path).st_size)

    def descriptor(self, path: str, flags: int) -> int:
        """Return a new descriptor of the file at `path`.

        When the process may have no more of them, for connections take some as well, one that was
        not used lately is closed for it.
        """
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, 0o644)
            except OSError as error:
                if error.errno not in _NO_MORE_OPEN or not self._open:
                    raise
                self._close_one()

    def make_room(self) -> None:
        """Close what was not used lately, until one more file may be open."""
        while len(self._open) >= self._max_open:
            self._close_one()

    def _close_one(self) -> None:
        # Second chance: the oldest goes, unless it was used since it was last looked at.
        while (oldest := next(iter(self._open))).used:
            oldest.used = False
            del self._open[oldest]
            self._open[oldest] = None
        oldest.close()

    def remember(self, file: OsFile) -> None:
        """Count `file` among the open."""
        self._open[file] = None

    def forget(self, file: OsFile) -> None:
        """Count `file` among the open no longer."""
        self._open.pop(file, None)

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; FileNotFoundError when absent."""
        with open(path, "rb", opener=self.descriptor) as file:
            return file.read()

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def rename(self, old: str, new: str) -> None:
        """Move the file or directory at `old` to `new` in one step, replacing a file there."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove the file at `path`; harmless when it is absent."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def makedirs(self, path: str) -> None:
        """Make the directory at `path` and those above it; harmless when it exists."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path`, which is empty; harmless when it is absent."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory at `path` would survive a loss of power."""
        if not self.is_lasting:
            return
        fd = self.descriptor(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> OsLock:
        """Lock the file at `path`, made if need be; BlockingIOError when somebody else has it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock_record(fd)
        except OSError:
            os.close(fd)
            raise
        return OsLock(fd)


def _lock_record(fd: int) -> None:
    """Take the kind of lock that Java takes, so that a Kafka keeps out of here, and we of there.

    It belongs to the descriptor where the system can do that, else to the whole process, to which
    another broker of this process is no stranger.
    """
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(fd, command, whole_file)


class OsLock:
    """A lock on a file of the operating system, held as long as its descriptor is open."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let the lock go; harmless when it was let go before."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
