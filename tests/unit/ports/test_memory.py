"""Garbage of long-lived objects, and freed memory that the C library holds."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from kafkalite.ports import memory

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="mallopt and malloc_trim are glibc's"
)


FROZEN_OBJECTS = """
import gc, weakref
from kafkalite.ports import memory

class Cycle:
    def __init__(self):
        self.itself = self

gc.disable()
memory._MIN_COUNT = 10_000
objects = memory.FrozenObjects()
count = gc.get_freeze_count()
cycle = Cycle()
frozen, new = weakref.ref(cycle), weakref.ref(Cycle())
objects.collect()
assert new() is None, "new garbage is collected"
assert gc.get_freeze_count() > count, "what remains is skipped from now on"
del cycle
objects.collect()
assert frozen() is not None
growth = [[] for _ in range(4 * max(10_000, count))]
objects.collect()
objects.collect()
assert frozen() is None, "all objects are examined when they are many more than before"
objects.collect()
assert gc.get_freeze_count() > 4 * count
"""


def test_objects_that_survive_a_collection_are_skipped_until_they_are_many() -> None:
    """In a process of its own, because a collector examines the objects of the whole process."""
    subprocess.run([sys.executable, "-c", FROZEN_OBJECTS], check=True)


class Library:
    """A C library that records calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def mallopt(self, *arguments: int) -> int:
        self.calls.append(("mallopt", *arguments))
        return 1

    def malloc_trim(self, *arguments: int) -> int:
        self.calls.append(("malloc_trim", *arguments))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    memory._libc_function.cache_clear()
    monkeypatch.setattr(memory, "_libc_function", memory._libc_function.__wrapped__)
    return library


def test_freed_memory_is_not_returned_by_default(library: Library) -> None:
    memory.keep_freed_memory()
    assert [call[:2] for call in library.calls] == [
        ("mallopt", -3),
        ("mallopt", -1),
        ("mallopt", -2),
        ("mallopt", -8),
    ]


def test_freed_memory_is_returned_on_request(library: Library) -> None:
    memory.return_freed_memory()
    assert library.calls == [("malloc_trim", 0)]


def test_another_c_library_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.setattr(memory, "_libc_function", memory._libc_function.__wrapped__)
    memory.keep_freed_memory()
    memory.return_freed_memory()
    assert memory._libc_function("malloc_trim") is None
