"""A file system that ignores and preserves case, as most Macs and Windows have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.ports.files import OsFile, OsFiles

if TYPE_CHECKING:
    from kafkalite.ports.files import Buffer
    from kafkalite.ports.locks import Lock


class CaselessFiles(OsFiles):
    """The operating system's files, found by names in any case."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Return the file at `path` in any case."""
        return super().open(existing(path), create=create)

    def read(self, path: str) -> bytes:
        """Return all of the file at `path` in any case."""
        return super().read(existing(path))

    def write(self, path: str, content: Buffer) -> None:
        """Replace the file at `path` in any case."""
        super().write(existing(path), content)

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path` in any case."""
        return super().list(existing(path))

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` in any case last changed."""
        return super().modified_ms(existing(path))

    def rename(self, old: str, new: str) -> None:
        """Rename `old` in any case, replacing `new` in any case."""
        super().rename(existing(old), existing(new))

    def remove(self, path: str) -> None:
        """Remove the file at `path` in any case."""
        super().remove(existing(path))

    def makedirs(self, path: str) -> None:
        """Create the directory at `path`, unless it exists in any case."""
        super().makedirs(existing(path))

    def mkdir(self, path: str) -> None:
        """Create the directory at `path`, unless it exists in any case."""
        super().mkdir(existing(path))

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path` in any case."""
        super().remove_directory(existing(path))

    def lock(self, path: str) -> Lock:
        """Lock the file at `path` in any case."""
        return super().lock(existing(path))


def existing(path: str) -> str:
    """Return `path` with the case that its existing parts have."""
    found = Path(path).anchor or "."
    for part in Path(path).relative_to(Path(path).anchor).parts:
        names = os.listdir(found) if os.path.isdir(found) else []  # noqa: PTH112, PTH208 - text
        same = [name for name in names if name.lower() == part.lower()]
        found = f"{found.rstrip('/')}/{same[0] if same else part}"
    return found
