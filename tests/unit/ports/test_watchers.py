"""Watchers: functions that are called at the next change."""

from __future__ import annotations

from kafkalite.ports.watchers import Watchers


def test_a_change_is_notified_once() -> None:
    watchers = Watchers()
    called: list[str] = []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")

    watchers.watch(first)
    watchers.watch(second)
    watchers.unwatch(second)
    watchers.notify()
    watchers.notify()
    watchers.unwatch(first)
    assert called == ["first"]
    assert watchers.changes == 2


def test_a_function_can_watch_again_while_it_is_called() -> None:
    watchers = Watchers()
    seen: list[int] = []

    def again() -> None:
        seen.append(watchers.changes)
        watchers.watch(again)

    watchers.watch(again)
    watchers.notify()
    watchers.notify()
    assert seen == [1, 2]
