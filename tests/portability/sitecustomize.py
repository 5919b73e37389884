"""Hides what Windows does not have; Python imports this module when it starts.

The tests of `tests/portability` put this directory on PYTHONPATH, so that the processes that tests
start lack the same modules and functions.
"""

import asyncio
import os
import sys

import filelock  # noqa: F401 - it keeps the kind of lock that it chose when it was imported

for name in ("fcntl", "resource", "uvloop"):
    sys.modules[name] = None  # type: ignore[assignment]
for name in ("fdatasync", "pread", "preadv", "pwrite", "pwritev", "writev"):
    delattr(os, name)


def add_signal_handler(*_: object) -> None:
    """Refuse, as the event loops of Windows do."""
    raise NotImplementedError


asyncio.SelectorEventLoop.add_signal_handler = add_signal_handler  # type: ignore[assignment,method-assign]
