"""Watchers: functions that are called after each change."""

from __future__ import annotations

from kafkalite.ports.watchers import Watchers


def test_watchers_are_called_after_each_change_until_they_are_removed() -> None:
    watchers = Watchers()
    called: list[str] = []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")

    watchers.watch(first)
    watchers.watch(second)
    assert len(watchers) == 2
    watchers.notify()
    watchers.unwatch(first)
    watchers.notify()
    watchers.unwatch(second)
    watchers.notify()
    assert called == ["first", "second", "second"]
    assert len(watchers) == 0
