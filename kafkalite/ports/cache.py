"""The cache directory, for files that can be created again.

All of these files are code that will be run: compiled loops, a script, a package for Spark. Another
user who could write there could make kafkalite run other code. So a directory is used only if no
other user can write to it or replace it or one of its parents.
"""

from __future__ import annotations

import atexit
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.system import user_id
from kafkalite.ports.temporary import new_temporary_directory

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_path(environ: Mapping[str, str]) -> Path:
    """Return the path of this user's cache directory."""
    root = environ.get("XDG_CACHE_HOME")
    return Path(root or Path(environ.get("HOME") or _home(), ".cache")) / "kafkalite"


def persistent_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the cache directory, created if needed; None if it is not writable or not safe."""
    directory = cache_path(environ)
    try:
        _make_private(directory)
        directory = directory.resolve()
        tempfile.TemporaryFile(dir=directory).close()
        return directory if is_private(directory) else None
    except OSError:
        return None


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return a directory that only this user can write, if necessary a temporary one."""
    return persistent_directory(environ) or _temporary_directory()


def is_private(directory: Path) -> bool:
    """Whether no other user can put files into a directory, or replace it or a parent."""
    user = user_id()
    if user is None:  # Windows: the directory is in the profile of the user
        return True
    for path in (directory, *directory.parents):
        status = path.stat(follow_symlinks=False)
        if status.st_uid not in ({user} if path == directory else {user, 0}):
            return False
        # In a sticky directory, such as /tmp, users can rename and delete only their own files.
        is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_shared and (path == directory or not status.st_mode & stat.S_ISVTX):
            return False
    return True


def _make_private(directory: Path) -> None:
    """Create a directory and missing parents, accessible to this user only."""
    if not directory.exists():
        _make_private(directory.parent)
        directory.mkdir(0o700, exist_ok=True)


@cache
def _temporary_directory() -> Path:
    directory = new_temporary_directory(SystemEntropy().uuid())
    atexit.register(directory.remove)
    return Path(directory.path)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
