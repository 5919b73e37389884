"""The paths of several log directories of a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def offline_log_directories(paths: Sequence[str]) -> list[str]:
    """Return those of the log directories of one node that are files: a node starts without them.

    Raises ConfigError if no path can be a directory, and, as in Kafka, if two paths are one
    directory, as a link is. Paths that do not exist are names only.
    """
    known: dict[str, str] = {}
    files = []
    for path in paths:
        # Unlike Path, these accept cycles of links, and directories that this user cannot read.
        if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
            files.append(path)
        other = known.setdefault(os.path.realpath(path), path)
        if other != path:
            raise ConfigError(
                "log.dirs", f"log.dirs has {other} and {path}, which are one directory: remove one"
            )
    if len(files) == len(paths):
        raise ConfigError("log.dirs", f"log.dirs has {files[0]}, which is not a directory")
    return files
