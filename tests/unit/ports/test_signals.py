"""Signals stop a process on loops with and without signal handlers."""

from __future__ import annotations

import asyncio
import signal

import pytest

from kafkalite.ports.signals import call_on_signal, stop_signals


def test_windows_has_another_signal_for_a_closed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


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
