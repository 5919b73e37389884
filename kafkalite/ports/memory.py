"""Memory of the process: garbage, freed memory of the C library, and buffers that grow in place."""

from __future__ import annotations

import gc
from functools import cache
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MIB = 1024 * 1024
_MAPPED_BYTES = 512 * _MIB
"""A size for which glibc always maps new memory: it keeps less than half of this free."""

_MAX_PAUSE_S = 30.0
"""The maximum time without automatic collections."""

_INTERVAL_FACTOR = 200
"""Full collections are requested at most once in this multiple of their duration.

A collection takes 60 ms with 100,000 groups."""

_MAX_GROWTH = 4
"""The growth of the number of frozen objects after which all of them are examined again."""
_MIN_COUNT = 125_000
"""The number of frozen objects from which growth counts."""


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


def growable_buffer(size: int) -> bytearray:
    """Return a buffer whose memory the system can enlarge without a copy, where it supports this.

    glibc does so with memory that it allocated for more than it keeps free. So the buffer is made
    too large, of memory that is not touched, and shrunk. The content of the buffer is undefined.
    """
    resize = _bytearray_resize()
    if resize is None:
        return bytearray(size)
    buffer = bytearray()
    try:
        resize(buffer, max(size, _MAPPED_BYTES))
    except MemoryError:  # the address space is limited
        return bytearray(size)
    del buffer[size:]
    return buffer


@cache
def _bytearray_resize() -> Callable[..., int] | None:
    """Return CPython's function that enlarges a bytearray without clearing the memory."""
    import ctypes  # noqa: PLC0415 - not needed by a start

    try:
        resize = ctypes.pythonapi.PyByteArray_Resize
    except AttributeError:  # another Python
        return None
    resize.argtypes, resize.restype = (ctypes.py_object, ctypes.c_ssize_t), ctypes.c_int
    return resize


@cache
def _libc_function(name: str) -> Callable[..., int] | None:
    import ctypes  # noqa: PLC0415 - not needed by a start

    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function


class GarbageCollector:
    """The garbage collector of the process, which all clusters in the process share."""

    __slots__ = (
        "_enable_s",
        "_has_disabled",
        "_lock",
        "_next_s",
        "_now_s",
        "_pauses",
        "collect_all",
    )

    def __init__(self, now_s: Callable[[], float] = perf_counter) -> None:
        self._now_s = now_s
        self._lock = Lock()
        """Held for each change, because clusters may have event loops in several threads."""
        self._pauses: set[object] = set()
        self._has_disabled = False
        self._enable_s = 0.0
        """The time at which it is enabled in spite of pauses."""
        self._next_s = 0.0
        """The time of the next full collection at the earliest."""
        self.collect_all: Callable[[], object] = gc.collect
        """Runs a full collection; a process of a broker alone skips long-lived objects."""

    def pause(self, reason: object) -> None:
        """Run no automatic collections until `resume` was called for each reason.

        The time is limited, because pauses may overlap permanently.
        """
        with self._lock:
            if not self._pauses:
                if gc.isenabled():
                    gc.disable()
                    self._has_disabled = True
                    self._enable_s = self._now_s() + _MAX_PAUSE_S
            elif self._has_disabled and self._now_s() >= self._enable_s:
                self._enable()
            self._pauses.add(reason)

    def resume(self, reason: object) -> None:
        """End a pause, if it has begun."""
        with self._lock:
            self._pauses.discard(reason)
            if not self._pauses:
                self._enable()

    def _enable(self) -> None:
        if self._has_disabled:
            self._has_disabled = False
            gc.enable()

    def collect(self) -> None:
        """Run a full collection, which also empties Python's free lists, if it is due.

        An object in a free list is enough to prevent the return of a megabyte.
        """
        started_s = self._now_s()
        if started_s >= self._next_s and not self._pauses:
            self.collect_all()
            ended_s = self._now_s()
            self._next_s = ended_s + _INTERVAL_FACTOR * (ended_s - started_s)


COLLECTOR: Final = GarbageCollector()


class FrozenObjects:
    """Garbage collections that skip the objects which survived an earlier one.

    A collection of all objects takes 0.3 ms per thousand objects, and nothing else runs meanwhile.
    Objects that live long are nearly always freed without the collector, when they are no longer
    used. Those that form cycles remain until the number of frozen objects has grown by
    _MAX_GROWTH: then all are examined. So garbage is at most a multiple of the objects in use.
    """

    __slots__ = ("_latest_count",)

    def __init__(self) -> None:
        """Freeze all objects of the process without a collection."""
        gc.freeze()
        self._latest_count = _MIN_COUNT
        """The number of frozen objects after the last collection of all, or the minimum."""

    def collect(self) -> None:
        """Collect the garbage among new objects, and freeze the others."""
        examines_all = gc.get_freeze_count() > _MAX_GROWTH * self._latest_count
        if examines_all:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        if examines_all:
            self._latest_count = max(_MIN_COUNT, gc.get_freeze_count())
