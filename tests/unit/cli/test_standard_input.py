"""The standard input is read while other tasks run."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.standard_input import LongLineError, input_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


class Pieces(io.RawIOBase):
    """A stream that returns its pieces one by one; an exception is raised."""

    def __init__(self, *pieces: bytes | OSError) -> None:
        self._pieces: Iterator[bytes | OSError] = iter(pieces)

    def read(self, size: int = -1) -> bytes:
        del size
        piece = next(self._pieces, b"")
        if isinstance(piece, OSError):
            raise piece
        return piece

    def readable(self) -> bool:
        return True


def give(monkeypatch: pytest.MonkeyPatch, *pieces: bytes | OSError) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pieces(*pieces))))


async def test_lines_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"a", b"b\nc\r\n\n", b"d", b"e")
    assert [lines async for lines in input_lines()] == [[b"ab", b"c", b""], [b"de"]]
    give(monkeypatch)
    assert [lines async for lines in input_lines()] == []


async def test_length_of_a_line_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"a\n123", b"456")
    lines = input_lines(5)
    assert await anext(lines) == [b"a"]
    with pytest.raises(LongLineError, match="line 2 is longer than 5 bytes"):
        await anext(lines)


async def test_error_of_the_system_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"a\n", OSError("gone"))
    lines = input_lines()
    assert await anext(lines) == [b"a"]
    with pytest.raises(OSError, match="gone"):
        await anext(lines)
