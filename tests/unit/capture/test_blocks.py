"""The part of a file that is looked at: as much as is needed, unpacked where it is gzipped."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.blocks import window
from kafkalite.capture.model import Problem, ProblemKind

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 3_000_001


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_file_goes_by_without_being_in_memory_whole(tmp_path: Path, *, is_packed: bool) -> None:
    data = bytes(range(256)) * (SIZE // 256 + 1)
    path = tmp_path / "f"
    path.write_bytes(gzip.compress(data, 1) if is_packed else data)
    found: list[Problem] = []
    seen = 0
    with window(str(path), found.append) as view:
        while view.has(1000):
            assert view.offset == seen
            assert view.buffer[view.position] == seen % 256
            assert len(view.buffer) < 2_200_000
            view.position += 1000
            seen += 1000
        assert view.left == len(data) - seen
    assert found == []


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda data: data[: len(data) // 2], ProblemKind.TRUNCATED_BLOCK),
        (lambda data: data[:60] + b"\xff" * 20 + data[80:], ProblemKind.CORRUPT_BLOCK),
        (lambda data: data[:-8] + bytes(8), ProblemKind.CORRUPT_BLOCK),
    ],
)
def test_a_broken_gzip_file_ends_where_it_breaks(
    tmp_path: Path, damage: object, kind: ProblemKind
) -> None:
    path = tmp_path / "f.gz"
    data = gzip.compress(bytes(range(256)) * 100, 1)
    assert callable(damage)
    path.write_bytes(damage(data))
    found: list[Problem] = []
    with window(str(path), found.append) as view:
        while view.has(100):
            view.position += 100
    assert [each.kind for each in found] == [kind]
