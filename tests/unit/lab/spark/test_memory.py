"""The part of the machine's memory that Java uses as heap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.memory import audits_at_once, duckdb_bytes, heap_mib
from kafkalite.ports.system import machine_bytes

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


@pytest.mark.parametrize(
    ("gib", "heap"), [(1, 1024), (4, 1024), (8, 1365), (16, 2730), (64, 4096), (1024, 4096)]
)
def test_heap_is_a_sixth_of_the_memory_within_limits(gib: int, heap: int) -> None:
    assert heap_mib(gib * GIB) == heap


@pytest.mark.parametrize(
    ("heap", "audits"),
    [("256m", 1), ("700m", 2), ("1g", 3), ("1365m", 4), ("64g", 4), ("1073741824", 3), ("all", 1)],
)
def test_number_of_parallel_audits_depends_on_the_heap(heap: str, audits: int) -> None:
    assert audits_at_once(heap) == audits


@pytest.mark.parametrize(
    ("heap", "mib"), [("2g", 1024), ("1365m", 682.5), (None, 2048), ("all", 2048)]
)
def test_duckdb_uses_half_of_the_heap(heap: str | None, mib: float) -> None:
    assert duckdb_bytes(heap, 64 * GIB) == mib * (1 << 20)


def test_limit_of_a_container_counts_as_memory(tmp_path: Path) -> None:
    whole = machine_bytes([])
    limit, unlimited = tmp_path / "limit", tmp_path / "unlimited"
    limit.write_text(f"{GIB // 8}\n")
    unlimited.write_text("max\n")
    assert machine_bytes([str(limit)]) == GIB // 8
    assert machine_bytes([str(unlimited), str(tmp_path / "missing")]) == whole > GIB // 8


def test_without_a_known_memory_the_heap_is_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sysconf")  # as on Windows
    assert heap_mib(machine_bytes([])) == 1024
