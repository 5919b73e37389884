"""Signals stop a process on loops with and without signal handlers."""

from __future__ import annotations

import asyncio
import selectors
import signal
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kafkalite.ports.signals import called_on_signals, stop_signals

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT_LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
if find_spec("uvloop") is not None:
    import uvloop

    EVENT_LOOPS.append(uvloop.new_event_loop)


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
    stop_requested = asyncio.Event()
    with closing(loop), called_on_signals(loop, (signal.SIGUSR1,), stop_requested.set):
        loop.run_until_complete(stop_requested.wait())
    assert WindowsSelector.waits_s
    assert all(wait_s is not None and wait_s < 1 for wait_s in WindowsSelector.waits_s)


@pytest.mark.parametrize("has_handlers", [True, False])
def test_a_signal_calls_back(monkeypatch: pytest.MonkeyPatch, *, has_handlers: bool) -> None:
    loop = asyncio.SelectorEventLoop()
    if not has_handlers:

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(loop, "add_signal_handler", refuse)
    stop_requested = asyncio.Event()
    with closing(loop), called_on_signals(loop, (signal.SIGUSR1,), stop_requested.set):
        loop.call_soon(signal.raise_signal, signal.SIGUSR1)
        loop.run_until_complete(asyncio.wait_for(stop_requested.wait(), 10))


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL, signal.default_int_handler])
@pytest.mark.parametrize("new_loop", EVENT_LOOPS)
def test_the_handlers_from_before_are_restored(
    before: Any,  # noqa: ANN401 - of the signal module
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    original = signal.signal(signal.SIGINT, before)
    try:
        with (
            closing(new_loop()) as loop,
            called_on_signals(loop, (signal.SIGINT,), loop.stop),
        ):
            loop.call_soon(signal.raise_signal, signal.SIGINT)
            loop.run_forever()
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, original)
