"""Interrupts of commands: signals that ask for a clean stop, handled like Ctrl-C."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalite.ports.signals import REQUIRED_STOPS, stop_signals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNAL_STATUS = 128
"""Shells add the number of the signal that ended a process."""


@contextmanager
def stops_as_interrupts() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, but with another exit status; raises SystemExit.

    SIGHUP is still ignored in a process that ignores it, as under nohup. SIGTERM is not, as in
    `kafkalite serve`.
    """
    received = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received = number
        # A running event loop has a handler of its own; a background process may have none.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    before = {
        each: signal.signal(each, interrupt)
        for each in stop_signals()
        if each is not signal.SIGINT
        and (each in REQUIRED_STOPS or signal.getsignal(each) is not signal.SIG_IGN)
    }
    try:
        yield
    except KeyboardInterrupt:
        if received:
            sys.exit(_SIGNAL_STATUS + received)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
