"""Processes of this machine."""

from __future__ import annotations

import os


def own_process_id() -> int:
    """Return the id of this process."""
    return os.getpid()


def is_running(process_id: int) -> bool:
    """Return whether a process of this user has this id."""
    if process_id <= 0:
        return False  # such an id means a group of processes
    try:
        os.kill(process_id, 0)
    except (OSError, OverflowError):
        return False
    return True
