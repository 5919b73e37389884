"""Capture files in chunks: whatever they come from, and packed or not."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import sealed, view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.blocks import Tell

Source = bytes | bytearray | memoryview | IO[bytes]
"""An open file has to know `readinto`, as all that are there for bytes do."""

_Stream = io.RawIOBase | io.BufferedIOBase

_GZIP: Final = b"\x1f\x8b"
_LEAST: Final = 1 << 16


class Chunk(NamedTuple):
    """A part of a file, which begins with the first byte that the part before left unused."""

    data: Bytes
    offset: int
    is_last: bool
    room: Bytes | None = None
    """Memory that begins with the data, and has more behind them, to be written to."""


class Chunks:
    """The chunks of one file; told after each how much of it was used."""

    def __init__(
        self, source: Source, size: int, tell: Tell, part: tuple[int, int | None] | None = None
    ) -> None:
        """Cut a file, or a part of one that is not packed: where that starts and stops."""
        self._size = max(size, _LEAST)
        self._tell = tell
        self._offset, stop = (0, None) if part is None else part
        self._left = None if stop is None else stop - self._offset
        self._used = 0
        self._whole: memoryview | None = None
        self._file: _Stream | None = None
        if isinstance(source, bytes | bytearray | memoryview):
            whole = memoryview(source).cast("B")[:stop]
            if part is None and bytes(whole[:2]) == _GZIP:
                self._file = _unpacked(io.BytesIO(whole))
            else:
                self._whole = whole
        elif part is not None:
            source.seek(self._offset)
            self._file = cast("_Stream", source)
        else:
            stream = cast("_Stream", source)
            room = bytearray(len(_GZIP))
            have = self._read_into(stream, memoryview(room))
            head = bytes(room[:have])
            file = _Joined(head, stream)
            self._file = _unpacked(file) if head == _GZIP else file

    @property
    def is_packed(self) -> bool:
        """Whether the file's bytes are not the capture's."""
        return isinstance(self._file, gzip.GzipFile)

    def used(self, count: int) -> None:
        """Note how much of the last chunk was used."""
        self._used = count

    def __iter__(self) -> Iterator[Chunk]:
        return self._of_bytes(self._whole) if self._whole is not None else self._of_file()

    def _of_bytes(self, whole: memoryview) -> Iterator[Chunk]:
        size, stop = self._size, self._offset
        while stop < len(whole) or not len(whole):
            stop = min(self._offset + size, len(whole))
            is_last = stop == len(whole)
            self._used = 0
            yield Chunk(view(whole[self._offset : stop]), self._offset, is_last)
            if is_last:
                return
            # Where nothing could be used, a block is longer than a chunk.
            size = self._size if self._used else 2 * size
            self._offset += self._used

    def _of_file(self) -> Iterator[Chunk]:
        assert self._file is not None
        kept, size = 0, self._size
        # One buffer for all chunks: nothing that is given out refers to it.
        room = np.empty(size + size // 4, np.uint8)
        while True:
            if kept + size > len(room):
                room = np.concatenate([room[:kept], np.empty(2 * size, np.uint8)])
            asked = size if self._left is None else min(size, self._left)
            have = self._read_into(self._file, room[kept : kept + asked].data)
            if self._left is not None:
                self._left -= have
            is_last = have < size
            data = room[: kept + have]
            self._used = 0
            yield Chunk(sealed(data), self._offset, is_last, room)
            if is_last:
                return
            size = self._size if self._used else max(self._size, len(data))
            kept = len(data) - self._used
            room[:kept] = data[self._used :]
            self._offset += self._used

    def _read_into(self, file: _Stream, room: memoryview) -> int:
        """Fill the room as far as the file goes; return how far that is."""
        have = 0
        try:
            while have < len(room):
                size = file.readinto(room[have:])
                if not size:
                    break
                have += size
        except EOFError:
            self._tell(
                ProblemKind.TRUNCATED_BLOCK, None, "the compressed file ends in its midst", 1
            )
        except (OSError, zlib.error) as error:
            self._tell(ProblemKind.CORRUPT_BLOCK, None, f"cannot be read further: {error}", 1)
        return have


def _unpacked(file: _Stream) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=cast("IO[bytes]", file))


class _Joined(io.RawIOBase):
    """A file of which the beginning has been read already."""

    def __init__(self, head: bytes, rest: _Stream) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._head and size:
            part, self._head = (
                self._head[:size] if size > 0 else self._head,
                b"" if size < 0 else self._head[size:],
            )
            return part
        return self._rest.read(size) or b""

    def readinto(self, room: Any, /) -> int | None:  # noqa: ANN401 - as io has it
        if not self._head:
            return self._rest.readinto(room)
        part = self.read(len(memoryview(room)))
        memoryview(room)[: len(part)] = part
        return len(part)
