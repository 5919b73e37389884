"""The paths of several log directories of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_log_directories(paths: Sequence[str]) -> None:
    """Raise ConfigError for paths that cannot be the log directories of one node.

    As in Kafka, two paths must not be one directory, as a link is. Paths that do not exist are
    names only. Kafka serves without a path that is no directory.
    """
    known: dict[Path, str] = {}
    for text in paths:
        path = Path(text)
        if path.exists() and not path.is_dir():
            raise ConfigError("log.dirs", f"log.dirs has {text}, which is not a directory")
        other = known.setdefault(path.resolve(), text)
        if other != text:
            raise ConfigError("log.dirs", f"log.dirs has {other} and {text}: one directory")
