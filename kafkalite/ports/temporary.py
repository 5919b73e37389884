# ruff: noqa: PTH102, PTH103, PTH104, PTH106, PTH108, PTH114, PTH118, PTH208
"""Temporary directories, and the removal of those whose process was killed.

The process that made a directory holds a lock on a file in it; the system releases the lock when
the process ends, however it ends. A directory whose lock is free has no user. The lock is taken
before the directory gets its name, so another process never finds it unlocked.

Paths are plain text and neither tempfile nor shutil is imported, because importing them takes as
long as loading all storage code.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.ports.locks import CAN_RENAME_LOCKED, lock_file
from kafkalite.ports.system import IS_WINDOWS, user_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.ports.locks import Lock

LOCK_FILE = ".temporary"
_NAME = "kafkalite-[0-9a-f]{32}"
_FILES_PER_STEP = 100
_REMOVAL_S = 1.0
_MIN_AGE_S = 10.0
"""A younger lock file may not be locked yet, where the name of the directory comes before it."""


class TemporaryDirectory:
    """A directory that only this user can read, locked as long as this process lives."""

    __slots__ = ("_lock", "path")

    def __init__(self, path: str, lock: Lock) -> None:
        self.path = path
        self._lock = lock

    def remove(self, limit_s: float = _REMOVAL_S) -> None:
        """Remove the directory, as far as the system allows and for about `limit_s` seconds.

        Remaining files are removed by the next start: a stop must not wait for a slow disk.
        """
        deadline = time.monotonic() + limit_s
        for _ in _remove_in_steps(self.path):
            if time.monotonic() >= deadline:
                break
        self.release()
        _finish_removal(self.path)

    def release(self) -> None:
        """Release the lock, and leave the directory to the next start."""
        self._lock.release()


def temporary_root() -> str:
    """Return the system's directory for temporary files."""
    if IS_WINDOWS:
        return os.environ.get("TEMP") or os.environ.get("TMP") or os.getcwd()  # noqa: PTH109
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - names below it are our own


def private_directory(name: str) -> str:
    """Return the path of a directory for files of this user, and create it if needed.

    It is below the system's directory for temporary files, in which every user can create names.
    So the directory is used only if it belongs to this user and is closed to others. Raises
    OSError otherwise.
    """
    user = user_id()
    if user is None:  # Windows: the directory is in the profile of the user
        path = os.path.join(temporary_root(), name)
        os.makedirs(path, exist_ok=True)
        return path
    path = os.path.join(temporary_root(), f"{name}-{user}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    is_private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    if not is_private or status.st_uid != user:
        raise PermissionError(errno.EACCES, "other users can change it", path)
    return path


def new_temporary_directory(identity: bytes) -> TemporaryDirectory:
    """Create a directory named by 16 random bytes; raises OSError on failure."""
    path = os.path.join(temporary_root(), f"kafkalite-{identity.hex()}")
    new_path = f"{path}.new" if CAN_RENAME_LOCKED else path
    os.mkdir(new_path, 0o700)
    lock: Lock | None = None
    try:
        lock = lock_file(os.path.join(new_path, LOCK_FILE), create=True)
        if new_path != path:
            os.rename(new_path, path)
    except OSError:
        if lock is not None:
            lock.release()
        for _ in _remove_in_steps(new_path):
            pass
        raise
    return TemporaryDirectory(path, lock)


def remove_abandoned() -> Iterator[str | None]:
    """Remove this user's temporary directories that no process has locked, in short steps.

    Yields the path of each directory after its removal, and None in between. Never raises OSError:
    a file that cannot be removed stays. Any thread may run this.
    """
    root = temporary_root()
    try:
        names = sorted(name for name in os.listdir(root) if re.fullmatch(_NAME, name))
    except OSError:
        return
    for name in names:
        path = os.path.join(root, name)
        lock = _lock_abandoned(path)
        if lock is not None:
            try:
                for _ in _remove_in_steps(path):
                    yield None
            finally:
                lock.release()
                _finish_removal(path)
            yield path


def _lock_abandoned(path: str) -> Lock | None:
    """Lock a directory of this user that no process uses; return the lock, or None."""
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or user_id() not in (None, status.st_uid):
            return None
        lock_path = os.path.join(path, LOCK_FILE)
        if not CAN_RENAME_LOCKED and time.time() - os.lstat(lock_path).st_mtime < _MIN_AGE_S:
            return None
        return lock_file(lock_path)
    except OSError:
        return None


def _remove_in_steps(path: str) -> Iterator[None]:
    """Remove a directory in steps, its lock file last: directories without it are ignored."""
    removed = 0
    for parent, directories, files in os.walk(path, topdown=False):
        for name in files:
            if parent != path or name != LOCK_FILE:
                with suppress(OSError):
                    os.unlink(os.path.join(parent, name))
                removed += 1
                if removed % _FILES_PER_STEP == 0:
                    yield
        for name in directories:
            with suppress(OSError):
                _remove_entry(os.path.join(parent, name))
    with suppress(OSError):
        os.unlink(os.path.join(path, LOCK_FILE))
    with suppress(OSError):
        os.rmdir(path)


def _finish_removal(path: str) -> None:
    """Remove the directory after the release of its lock, if it is empty.

    Windows refuses to remove a locked file. Its lock library removes the file with the lock, but
    the next start needs the file to recognize a directory that is not empty yet.
    """
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return
    except OSError:
        with suppress(OSError):
            os.close(os.open(os.path.join(path, LOCK_FILE), os.O_CREAT, 0o600))


def _remove_entry(path: str) -> None:
    """Remove an empty directory, or a link to a directory."""
    if os.path.islink(path):
        os.unlink(path)
    else:
        os.rmdir(path)
