"""Watchers: functions that are called once, at the next change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watchers:
    """A counter of changes, and functions that are called once, at the next change."""

    __slots__ = ("_watchers", "changes")

    def __init__(self) -> None:
        self.changes = 0
        """The number of changes."""
        self._watchers: list[Callable[[], None]] = []

    def notify(self) -> None:
        """Count a change, and call the functions that wait for it."""
        self.changes += 1
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            for each in watchers:
                each()

    def watch(self, notify: Callable[[], None]) -> None:
        """Call `notify` once, at the next change."""
        self._watchers.append(notify)

    def unwatch(self, notify: Callable[[], None]) -> None:
        """Undo `watch`, if `notify` has not been called."""
        if notify in self._watchers:
            self._watchers.remove(notify)
