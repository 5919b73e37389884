"""Tools that run until SIGTERM, and print a summary before they end."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.ports.signals import REQUIRED_STOPS, called_on_signals

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def ends_by_sigterm(command: Coroutine[None, None, None]) -> None:
    """Run a command until its end, or until SIGTERM or SIGINT cancel it."""
    task = asyncio.ensure_future(command)
    is_main = threading.current_thread() is threading.main_thread()
    numbers = REQUIRED_STOPS if is_main else ()
    loop = asyncio.get_running_loop()
    with called_on_signals(loop, numbers, task.cancel), suppress(asyncio.CancelledError):
        await task
