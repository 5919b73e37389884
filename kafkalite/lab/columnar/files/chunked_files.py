"""`Chunks`: reads a capture in chunks, from bytes or an open file, compressed or not."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, Final, cast

import numpy as np

from kafkalite.capture.formats.compressed_files import (
    MAGIC_BYTES,
    DecompressedFile,
    decompressor_of,
)
from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import byte_array, read_only
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.columnar.arrays import Bytes
    from kafkalite.lab.columnar.files.pcapng import Report

Source = bytes | bytearray | memoryview | IO[bytes]
"""Bytes, or an open file with `readinto`."""

_Stream = io.RawIOBase | io.BufferedIOBase

_MIN_CHUNK_BYTES: Final = 1 << 16


class Chunk(NamedTuple):
    """A part of a file. It begins with the first unused byte of the previous chunk."""

    data: Bytes
    offset: int
    is_last: bool
    memory: Bytes | None = None
    """Writable memory that begins with `data` and is longer than it."""


class Chunks:
    """The chunks of one file. After each chunk, the caller calls `set_used_bytes`."""

    def __init__(
        self, source: Source, size: int, report: Report, part: tuple[int, int | None] | None = None
    ) -> None:
        """Read a file in chunks of `size` bytes.

        `part` is the (start, stop) of a part of an uncompressed file.
        """
        self._chunk_bytes = max(size, _MIN_CHUNK_BYTES)
        self._report = report
        self._offset, stop = (0, None) if part is None else part
        self._remaining = None if stop is None else stop - self._offset
        self._used_bytes = 0
        self._bytes: memoryview | None = None
        self._file: _Stream | None = None
        if isinstance(source, bytes | bytearray | memoryview):
            file_bytes = memoryview(source).cast("B")[:stop]
            new_decompressor = decompressor_of(bytes(file_bytes[:MAGIC_BYTES]))
            if part is None and new_decompressor is not None:
                self._file = DecompressedFile(io.BytesIO(file_bytes), new_decompressor)
            else:
                self._bytes = file_bytes
        elif part is not None:
            source.seek(self._offset)
            self._file = cast("_Stream", source)
        else:
            stream = cast("_Stream", source)
            memory = bytearray(MAGIC_BYTES)
            size_read = self._read_into(stream, memoryview(memory))
            head = bytes(memory[:size_read])
            self._file = file = _PrefixedFile(head, stream)
            new_decompressor = decompressor_of(head)
            if new_decompressor is not None:
                self._file = DecompressedFile(file, new_decompressor)

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed."""
        return isinstance(self._file, DecompressedFile)

    def set_used_bytes(self, count: int) -> None:
        """Set the number of used bytes of the last chunk; the next chunk begins after them."""
        self._used_bytes = count

    def __iter__(self) -> Iterator[Chunk]:
        return (
            self._chunks_of_bytes(self._bytes)
            if self._bytes is not None
            else self._chunks_of_file()
        )

    def _chunks_of_bytes(self, file_bytes: memoryview) -> Iterator[Chunk]:
        size, stop = self._chunk_bytes, self._offset
        while stop < len(file_bytes) or not len(file_bytes):
            stop = min(self._offset + size, len(file_bytes))
            is_last = stop == len(file_bytes)
            self._used_bytes = 0
            yield Chunk(byte_array(file_bytes[self._offset : stop]), self._offset, is_last)
            if is_last:
                return
            # If nothing was used, a block is larger than the chunk.
            size = self._chunk_bytes if self._used_bytes else 2 * size
            self._offset += self._used_bytes

    def _chunks_of_file(self) -> Iterator[Chunk]:
        assert self._file is not None
        unused_bytes, size = 0, self._chunk_bytes
        # One buffer for all chunks: nothing refers to a chunk after it was processed.
        memory = np.empty(size + size // 4, np.uint8)
        while True:
            if unused_bytes + size > len(memory):
                memory = np.concatenate([memory[:unused_bytes], np.empty(2 * size, np.uint8)])
            requested_bytes = size if self._remaining is None else min(size, self._remaining)
            size_read = self._read_into(
                self._file, memory[unused_bytes : unused_bytes + requested_bytes].data
            )
            if self._remaining is not None:
                self._remaining -= size_read
            is_last = size_read < size
            data = memory[: unused_bytes + size_read]
            self._used_bytes = 0
            yield Chunk(read_only(data), self._offset, is_last, memory)
            if is_last:
                return
            size = self._chunk_bytes if self._used_bytes else max(self._chunk_bytes, len(data))
            unused_bytes = len(data) - self._used_bytes
            memory[:unused_bytes] = data[self._used_bytes :]
            self._offset += self._used_bytes

    def _read_into(self, file: _Stream, memory: memoryview) -> int:
        """Fill the memory, or a part of it at the end of the file; return the number of bytes."""
        size_read = 0
        try:
            while size_read < len(memory):
                size = file.readinto(memory[size_read:])
                if not size:
                    break
                size_read += size
        except EOFError:
            self._report(ProblemKind.TRUNCATED_BLOCK, None, "the compressed file is truncated", 1)
        except OSError as error:
            self._report(ProblemKind.CORRUPT_BLOCK, None, f"cannot read further: {error}", 1)
        return size_read


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
