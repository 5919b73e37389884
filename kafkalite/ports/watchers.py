"""Watchers: functions that are called after each change of something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watchers:
    """Functions that are called after each change, until `unwatch`."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._watchers)

    def notify(self) -> None:
        """Call the watchers, because something has changed."""
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after each change; it must neither raise nor change anything watched."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling a watcher."""
        self._watchers.remove(watcher)
