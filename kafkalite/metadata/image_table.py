"""ImageTable: a table of the metadata whose images share one copy until it changes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

K = TypeVar("K")
V = TypeVar("V")


class ImageTable(Generic[K, V]):
    """Rows by key; `image` has a copy of them.

    A change costs the same for a table of any size. Only the first image after it copies all rows.
    """

    __slots__ = ("_image", "_is_changed", "_rows", "rows")

    def __init__(self) -> None:
        self._rows: dict[K, V] = {}
        self.rows: Mapping[K, V] = MappingProxyType(self._rows)
        """The present rows."""
        self._image: Mapping[K, V] = MappingProxyType({})
        self._is_changed = False

    def replay_set(self, key: K, row: V) -> None:
        """Add or replace a row."""
        self._rows[key] = row
        self._is_changed = True

    def replay_remove(self, key: K) -> V:
        """Remove a row and return it; raises KeyError if it does not exist."""
        row = self._rows.pop(key)
        self._is_changed = True
        return row

    def image(self) -> Mapping[K, V]:
        """Return a copy that does not change; the same object while no row changes."""
        if self._is_changed:
            self._image = MappingProxyType(dict(self._rows))
            self._is_changed = False
        return self._image
