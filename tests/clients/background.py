"""Repeated actions in the background of a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PAUSE_S = 0.02


@contextmanager
def in_background(action: Callable[[], None]) -> Iterator[None]:
    """Repeat an action until the end of the `with` block."""
    is_done = threading.Event()

    def repeat() -> None:
        while not is_done.wait(_PAUSE_S):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
