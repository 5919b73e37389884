"""Locks on files, which the system releases when the process ends.

POSIX systems lock through `fcntl`. Other systems lock through the library `filelock`.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Protocol

from kafkalite.ports.system import NO_FOLLOW, OPEN_FLAGS

if TYPE_CHECKING:
    from filelock import BaseFileLock

try:
    import fcntl
except ImportError:  # only POSIX systems have this module
    fcntl = None  # type: ignore[assignment]


CAN_RENAME_LOCKED = fcntl is not None
"""Whether a directory with a locked file can be renamed, and the lock remains."""

_DESCRIPTOR_LOCK: int | None = (
    getattr(fcntl, "F_OFD_SETLK", None) if sys.platform.startswith("linux") else None
)
"""The command of Linux for a lock of a descriptor; its structure is that of Linux, too."""


class Lock(Protocol):
    """A lock that this process holds."""

    def release(self) -> None:
        """Release the lock."""


class DescriptorLock:
    """A lock that is held while a descriptor is open."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Release the lock; no effect if it was released before."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class ProcessLock(DescriptorLock):
    """A lock of the process, which it loses when it closes any descriptor of the file."""

    __slots__ = ("_file",)

    _held: ClassVar[set[tuple[int, int]]] = set()
    """Device and inode of locked files: the system does not refuse a second lock of a process."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._file = _identity(os.fstat(fd))
        self._held.add(self._file)

    @classmethod
    def is_held(cls, path: str) -> bool:
        """Return whether this process has locked the file at `path`."""
        with suppress(FileNotFoundError):
            return _identity(os.stat(path)) in cls._held  # noqa: PTH116 - paths are text here
        return False

    def release(self) -> None:
        """Release the lock; no effect if it was released before."""
        if self._fd >= 0:
            self._held.discard(self._file)
        super().release()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class LibraryLock:
    """A lock of the library `filelock`, whose file is removed with the lock on some systems."""

    __slots__ = ("_lock",)

    _held: ClassVar[set[BaseFileLock]] = set()
    """The library releases a lock that nothing refers to."""

    def __init__(self, lock: BaseFileLock) -> None:
        self._lock = lock
        self._held.add(lock)

    def release(self) -> None:
        """Release the lock; no effect if it was released before."""
        self._held.discard(self._lock)
        self._lock.release()


def lock_data(path: str) -> Lock:
    """Lock the file at `path`, created if needed, against other brokers.

    It is the same kind of lock as Java's, so that Kafka and this broker exclude each other. Linux
    locks for a descriptor, other POSIX systems for the process. Raises BlockingIOError if the file
    is locked, also by this process.
    """
    if fcntl is None:
        return _library_lock(path)
    if _DESCRIPTOR_LOCK is None and ProcessLock.is_held(path):
        raise BlockingIOError(errno.EAGAIN, "this process has locked it", path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o644)
    try:
        if _DESCRIPTOR_LOCK is None:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(fd, _DESCRIPTOR_LOCK, whole_file)
    except OSError:
        os.close(fd)
        raise
    return ProcessLock(fd) if _DESCRIPTOR_LOCK is None else DescriptorLock(fd)


def lock_file(path: str, *, create: bool = False, waits: bool = False) -> Lock:
    """Lock the file at `path` against other processes of kafkalite.

    With `create`, the file must not exist. If the file is locked, the call waits with `waits`, and
    otherwise raises BlockingIOError. Raises another OSError if it cannot be opened.
    """
    flags = os.O_RDWR | OPEN_FLAGS | NO_FOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
    fd = os.open(path, flags, 0o600)
    if fcntl is None:
        os.close(fd)
        return _library_lock(path, waits=waits)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        os.close(fd)
        raise
    return DescriptorLock(fd)


def _library_lock(path: str, *, waits: bool = False) -> LibraryLock:
    from filelock import FileLock, Timeout  # noqa: PLC0415 - POSIX systems do not need it

    lock = FileLock(path, timeout=-1 if waits else 0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(f"{path} is locked") from error
    return LibraryLock(lock)
