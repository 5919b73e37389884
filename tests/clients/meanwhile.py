"""Something that goes on while a test does something else."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PAUSE_S = 0.02


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Act again and again until the block is left."""
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.wait(_PAUSE_S):
            act()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
