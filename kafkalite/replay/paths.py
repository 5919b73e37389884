"""Paths of captures, as calls take them: one, or several."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


def listed(paths: Paths) -> list[str | PathLike[str]]:
    """Return one path, or several, as a list."""
    return [paths] if isinstance(paths, str | PathLike) else list(paths)
