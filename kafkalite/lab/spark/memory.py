"""Memory of the machine, and the part of it that Java uses as heap.

A session on one machine has Java and one Python worker per core. A worker needs memory for the
files that it reads, and Java needs memory in addition to its heap.
"""

from __future__ import annotations

import re
from typing import Final

HEAP_SETTING: Final = "spark.driver.memory"
"""Spark's setting with the size of Java's heap."""

_MIB: Final = 1 << 20
_MIN_HEAP_MIB: Final = 1024
"""All audits of the smallest capture fit in this."""
_MAX_HEAP_MIB: Final = 4096
"""Java does not become faster with a larger heap: sorts that do not fit spill to the disk."""
_HEAP_DIVISOR: Final = 6
"""One sixth: 1.3 of 8 GB. Java needs another half gigabyte, and so does each worker."""
_AUDIT_HEAP_MIB: Final = 320
_MAX_AUDITS: Final = 4
_JAVA_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def heap_mib(total_bytes: int) -> int:
    """Return the size of Java's heap on a machine with this much memory."""
    return max(_MIN_HEAP_MIB, min(_MAX_HEAP_MIB, total_bytes // _HEAP_DIVISOR // _MIB))


def duckdb_bytes(java_heap: str | None, total_bytes: int) -> int:
    """Return the memory of DuckDB next to Java: half of Java's heap, such as "1365m".

    Without a heap, it is that of a machine with this much memory.
    """
    return (_java_bytes(java_heap or "") or heap_mib(total_bytes) * _MIB) // 2


def audits_at_once(java_heap: str) -> int:
    """Return how many audits may be computed in parallel in a heap, such as "1365m".

    Each has query plans and broadcast tables there. While one is planned, others compute.
    """
    return max(1, min(_MAX_AUDITS, _java_bytes(java_heap) // (_AUDIT_HEAP_MIB * _MIB)))


def _java_bytes(size: str) -> int:
    """Return the bytes of a size, such as "1365m"; 0 if it is not one."""
    match = _JAVA_SIZE.fullmatch(size.strip().lower())
    return 0 if match is None else int(match[1]) << _SHIFTS[match[2]]
