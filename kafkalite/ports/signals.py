"""Signals that stop a process, as each operating system has them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

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


def call_on_signal(
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
