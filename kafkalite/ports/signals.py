"""Signals that stop a process, as each operating system has them."""

from __future__ import annotations

import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterable, Iterator

REQUIRED_STOPS = frozenset((signal.SIGINT, signal.SIGTERM))
"""Signals that always stop the process."""

_WAKE_INTERVAL_S = 0.2
"""The longest delay of a signal on Windows."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals of this system that ask for a clean stop.

    A closed terminal sends SIGHUP, and on Windows SIGBREAK.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


@contextmanager
def called_on_signals(
    loop: AbstractEventLoop, numbers: Iterable[signal.Signals], callback: Callable[[], object]
) -> Iterator[None]:
    """Call `callback` in `loop` after each of these signals; restore their handlers at the end.

    A closed loop of uvloop would still get the signals.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in before:
            _call_on_signal(loop, number, callback)
        yield
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _call_on_signal(
    loop: AbstractEventLoop, number: signal.Signals, callback: Callable[[], object]
) -> None:
    """Call `callback` in `loop` after each signal `number`.

    The event loops of Windows cannot do that. There, a handler of the interpreter calls it, and
    runs when the loop next wakes: a signal does not interrupt select(2).
    """
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(callback))
        _wake_regularly(loop)


def _wake_regularly(loop: AbstractEventLoop) -> None:
    loop.call_later(_WAKE_INTERVAL_S, _wake_regularly, loop)
