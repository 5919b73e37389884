"""Memory of the process: whether the C library keeps freed memory or returns it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MIB = 1024 * 1024


def keep_freed_memory() -> None:
    """Make glibc keep freed memory: returning it costs page faults for the next request.

    No effect with another C library.
    """
    mallopt = _libc_function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 64 * _MIB)
        mallopt(_M_TRIM_THRESHOLD, 256 * _MIB)
        mallopt(_M_TOP_PAD, 32 * _MIB)
        mallopt(_M_ARENA_MAX, 1)  # malloc_trim returns less of the memory of other arenas
    _libc_function("malloc_trim")  # found later, it would occupy memory between freed objects


def return_freed_memory() -> None:
    """Return freed memory to the system, where the C library is glibc."""
    malloc_trim = _libc_function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


@cache
def _libc_function(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
