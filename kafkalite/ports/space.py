"""How much room a disk has: asked when a client wants to know, never kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes on the file system of a directory, -1 where nobody can tell."""

    total_bytes: int = UNKNOWN
    usable_bytes: int = UNKNOWN


def disk_space(directory: str) -> DiskSpace:
    """Return the room on the file system that holds `directory`."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return DiskSpace()
    return DiskSpace(usage.total, usage.free)
