"""Where what can be made again is kept, so that it need not be.

All of that is code, which is run as it is found: compiled loops, a script, a package to be shipped.
Whoever else could write there could have his own run. So a folder is taken only where nobody else
may put anything, on the whole way to it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_path(environ: Mapping[str, str]) -> Path:
    """Return where the folder of this user belongs."""
    root = environ.get("XDG_CACHE_HOME")
    return Path(root or Path(environ.get("HOME") or _home(), ".cache")) / "kafkalite"


def lasting_folder(environ: Mapping[str, str]) -> Path | None:
    """Return it, made where it is not there; None where nothing can be kept, or not safely."""
    folder = cache_path(environ)
    try:
        _make(folder)
        folder = folder.resolve()
        tempfile.TemporaryFile(dir=folder).close()
        return folder if is_ours(folder) else None
    except OSError:
        return None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return a folder of this user alone, if need be one that goes with this process."""
    return lasting_folder(environ) or _passing()


def is_ours(folder: Path) -> bool:
    """Whether nobody else may put other files into a folder, or another one in its place."""
    us = os.geteuid()
    for place in (folder, *folder.parents):
        about = place.stat(follow_symlinks=False)
        if about.st_uid not in ({us} if place == folder else {us, 0}):
            return False
        # In a sticky folder, as those for temporary files are, everybody moves only his own.
        is_shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_shared and (place == folder or not about.st_mode & stat.S_ISVTX):
            return False
    return True


def _make(folder: Path) -> None:
    """Make a folder, and what is missing above it, for nobody else."""
    if not folder.exists():
        _make(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


@cache
def _passing() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kafkalite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
