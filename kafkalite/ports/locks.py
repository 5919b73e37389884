"""Locks on files, which the system releases when the process ends.

POSIX systems lock through `fcntl`. Other systems lock through the library `filelock`.
"""

from __future__ import annotations

import os
import struct
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

    It is the same kind of lock as Java's, so that Kafka and this broker exclude each other. Raises
    BlockingIOError if it is locked.
    """
    if fcntl is None:
        return _library_lock(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o644)
    try:
        _lock_like_java(fd)
    except OSError:
        os.close(fd)
        raise
    return DescriptorLock(fd)


def lock_file(path: str, *, create: bool = False) -> Lock:
    """Lock the file at `path` against other processes of kafkalite.

    With `create`, the file must not exist. Raises BlockingIOError if it is locked, and another
    OSError if it cannot be opened.
    """
    flags = os.O_RDWR | OPEN_FLAGS | NO_FOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
    fd = os.open(path, flags, 0o600)
    if fcntl is None:
        os.close(fd)
        return _library_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return DescriptorLock(fd)


def _library_lock(path: str) -> LibraryLock:
    from filelock import FileLock, Timeout  # noqa: PLC0415 - POSIX systems do not need it

    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(f"{path} is locked") from error
    return LibraryLock(lock)


def _lock_like_java(fd: int) -> None:
    """Take the kind of lock that Java takes.

    The lock belongs to the descriptor where the system supports that. Otherwise it belongs to the
    process and does not exclude another broker of the same process.
    """
    assert fcntl is not None
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(fd, command, whole_file)
