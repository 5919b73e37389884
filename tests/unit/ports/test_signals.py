"""Signals stop a process on loops with and without signal handlers."""

from __future__ import annotations

import asyncio
import selectors
import signal
from typing import ClassVar

import pytest

from kafkalite.ports.signals import call_on_signal, stop_signals


def test_windows_has_another_signal_for_a_closed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class WindowsSelector(selectors.DefaultSelector):
    """A selector that signals do not interrupt; a signal arrives during each wait."""

    waits_s: ClassVar[list[float | None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.waits_s.append(timeout)
            signal.raise_signal(signal.SIGUSR1)
        return super().select(0)


def test_the_loop_wakes_regularly_if_signals_do_not_wake_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.SelectorEventLoop(WindowsSelector())

    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(loop, "add_signal_handler", refuse)
    before = signal.getsignal(signal.SIGUSR1)
    try:
        stop_requested = asyncio.Event()
        call_on_signal(loop, signal.SIGUSR1, stop_requested.set)
        loop.run_until_complete(stop_requested.wait())
    finally:
        loop.close()
        signal.signal(signal.SIGUSR1, before)
    assert WindowsSelector.waits_s
    assert all(wait_s is not None and wait_s < 1 for wait_s in WindowsSelector.waits_s)


@pytest.mark.parametrize("has_handlers", [True, False])
def test_a_signal_calls_back(monkeypatch: pytest.MonkeyPatch, *, has_handlers: bool) -> None:
    loop = asyncio.SelectorEventLoop()
    if not has_handlers:

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(loop, "add_signal_handler", refuse)
    before = signal.getsignal(signal.SIGUSR1)
    try:
        stop_requested = asyncio.Event()
        call_on_signal(loop, signal.SIGUSR1, stop_requested.set)
        loop.call_soon(signal.raise_signal, signal.SIGUSR1)
        loop.run_until_complete(asyncio.wait_for(stop_requested.wait(), 10))
    finally:
        loop.close()
        signal.signal(signal.SIGUSR1, before)
