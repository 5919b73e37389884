"""The paths of several log directories of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def offline_log_directories(paths: Sequence[str]) -> list[str]:
    """Return those of the log directories of one node that are files: a node starts without them.

    Raises ConfigError if no path can be a directory, and, as in Kafka, if two paths are one
    directory, as a link is. Paths that do not exist are names only.
    """
    known: dict[Path, str] = {}
    files = []
    for text in paths:
        path = Path(text)
        if path.exists() and not path.is_dir():
            files.append(text)
        other = known.setdefault(path.resolve(), text)
        if other != text:
            raise ConfigError("log.dirs", f"log.dirs has {other} and {text}: one directory")
    if len(files) == len(paths):
        raise ConfigError("log.dirs", f"log.dirs has {files[0]}, which is not a directory")
    return files
