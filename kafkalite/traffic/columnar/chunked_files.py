"""`Chunks`: reads a capture in chunks, from bytes or an open file, gzipped or not."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from kafkalite.traffic.columnar.arrays import sealed, view
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.traffic.columnar.arrays import Bytes
    from kafkalite.traffic.columnar.pcapng import Report

Source = bytes | bytearray | memoryview | IO[bytes]
"""Bytes, or an open file with `readinto`."""

_Stream = io.RawIOBase | io.BufferedIOBase

_GZIP: Final = b"\x1f\x8b"
_MIN_CHUNK_BYTES: Final = 1 << 16


class Chunk(NamedTuple):
    """A part of a file. It begins with the first unused byte of the previous chunk."""

    data: Bytes
    offset: int
    is_last: bool
    memory: Bytes | None = None
    """Writable memory that begins with the data and is longer than it."""


class Chunks:
    """The chunks of one file; after each chunk, the caller passes the number of used bytes."""

    def __init__(
        self, source: Source, size: int, report: Report, part: tuple[int, int | None] | None = None
    ) -> None:
        """Read a file; `part` is the (start, stop) of a part of an uncompressed file."""
        self._size = max(size, _MIN_CHUNK_BYTES)
        self._report = report
        self._offset, stop = (0, None) if part is None else part
        self._remaining = None if stop is None else stop - self._offset
        self._used = 0
        self._whole: memoryview | None = None
        self._file: _Stream | None = None
        if isinstance(source, bytes | bytearray | memoryview):
            whole = memoryview(source).cast("B")[:stop]
            if part is None and bytes(whole[:2]) == _GZIP:
                self._file = _decompressed(io.BytesIO(whole))
            else:
                self._whole = whole
        elif part is not None:
            source.seek(self._offset)
            self._file = cast("_Stream", source)
        else:
            stream = cast("_Stream", source)
            memory = bytearray(len(_GZIP))
            size_read = self._read_into(stream, memoryview(memory))
            head = bytes(memory[:size_read])
            file = _PrefixedFile(head, stream)
            self._file = _decompressed(file) if head == _GZIP else file

    @property
    def is_compressed(self) -> bool:
        """Whether the file is gzipped."""
        return isinstance(self._file, gzip.GzipFile)

    def used(self, count: int) -> None:
        """Set the number of bytes of the last chunk that were used."""
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
            # If nothing was used, a block is larger than the chunk.
            size = self._size if self._used else 2 * size
            self._offset += self._used

    def _of_file(self) -> Iterator[Chunk]:
        assert self._file is not None
        unused, size = 0, self._size
        # One buffer for all chunks: nothing refers to it after the chunk was processed.
        memory = np.empty(size + size // 4, np.uint8)
        while True:
            if unused + size > len(memory):
                memory = np.concatenate([memory[:unused], np.empty(2 * size, np.uint8)])
            requested = size if self._remaining is None else min(size, self._remaining)
            size_read = self._read_into(self._file, memory[unused : unused + requested].data)
            if self._remaining is not None:
                self._remaining -= size_read
            is_last = size_read < size
            data = memory[: unused + size_read]
            self._used = 0
            yield Chunk(sealed(data), self._offset, is_last, memory)
            if is_last:
                return
            size = self._size if self._used else max(self._size, len(data))
            unused = len(data) - self._used
            memory[:unused] = data[self._used :]
            self._offset += self._used

    def _read_into(self, file: _Stream, memory: memoryview) -> int:
        """Fill the memory as far as the file has bytes; return the number of bytes."""
        size_read = 0
        try:
            while size_read < len(memory):
                size = file.readinto(memory[size_read:])
                if not size:
                    break
                size_read += size
        except EOFError:
            self._report(ProblemKind.TRUNCATED_BLOCK, None, "the compressed file is truncated", 1)
        except (OSError, zlib.error) as error:
            self._report(ProblemKind.CORRUPT_BLOCK, None, f"cannot read further: {error}", 1)
        return size_read


def _decompressed(file: _Stream) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=cast("IO[bytes]", file))


class _PrefixedFile(io.RawIOBase):
    """A file whose first bytes were already read."""

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

    def readinto(self, memory: Any, /) -> int | None:  # noqa: ANN401 - as in io
        if not self._head:
            return self._rest.readinto(memory)
        part = self.read(len(memoryview(memory)))
        memoryview(memory)[: len(part)] = part
        return len(part)
