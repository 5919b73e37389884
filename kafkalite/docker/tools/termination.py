"""Tools that run until SIGTERM, and print a summary before they end."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def ends_by_sigterm(command: Coroutine[None, None, None]) -> None:
    """Run a command until its end, or until SIGTERM or SIGINT cancel it."""
    task = asyncio.ensure_future(command)
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
