"""Unit tests of the buffered view of a capture file, gzipped or not."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.formats.capture_files import open_window
from kafkalite.capture.model import Problem, ProblemKind

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 3_000_001


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_large_file_is_buffered_in_parts(tmp_path: Path, *, is_gzipped: bool) -> None:
    data = bytes(range(256)) * (SIZE // 256 + 1)
    path = tmp_path / "f"
    path.write_bytes(gzip.compress(data, 1) if is_gzipped else data)
    problems: list[Problem] = []
    position = 0
    with open_window(str(path), problems.append) as window:
        while window.buffer_bytes(1000):
            assert window.offset == position
            assert window.buffer[window.position] == position % 256
            assert len(window.buffer) < 2_200_000
            window.position += 1000
            position += 1000
        assert window.remaining_bytes == len(data) - position
    assert problems == []


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda data: data[: len(data) // 2], ProblemKind.TRUNCATED_BLOCK),
        (lambda data: data[:60] + b"\xff" * 20 + data[80:], ProblemKind.CORRUPT_BLOCK),
        (lambda data: data[:-8] + bytes(8), ProblemKind.CORRUPT_BLOCK),
    ],
)
def test_corrupt_gzip_file_is_reported_and_ends(
    tmp_path: Path, damage: object, kind: ProblemKind
) -> None:
    path = tmp_path / "f.gz"
    data = gzip.compress(bytes(range(256)) * 100, 1)
    assert callable(damage)
    path.write_bytes(damage(data))
    problems: list[Problem] = []
    with open_window(str(path), problems.append) as window:
        while window.buffer_bytes(100):
            window.position += 100
    assert [each.kind for each in problems] == [kind]
