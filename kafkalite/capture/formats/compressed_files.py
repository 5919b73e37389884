"""Compressed captures: gzip, xz and zstd, decompressed up to their last byte also if they are cut.

`gzip.GzipFile` and `lzma.LZMAFile` read through a buffer, and lose its content if the file ends too
early. Captures that are cut are usual: the disk was full, or the program still writes.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.ports.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INPUT_BYTES: Final = 1 << 14
"""Bytes that are decompressed at once: if they are damaged, their content is lost."""
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS


class _Input(Protocol):
    """A compressed file."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes; empty at the end."""


class _Decompressor(Protocol):
    """The decompressor of one stream; a file may have several."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most `max_length` bytes, of earlier data as well."""


NewDecompressor: TypeAlias = "Callable[[], _Decompressor]"


class _GzipDecompressor:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(wbits=_GZIP_FORMAT)

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._decompressor.unconsumed_tail + data
        try:
            return self._decompressor.decompress(data, max_length)
        except zlib.error as error:
            raise OSError(str(error)) from error


def _new_xz_decompressor() -> _Decompressor:
    import lzma  # noqa: PLC0415 - rarely used; some builds of Python lack it

    return _Converting(lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError)


def _new_zstd_decompressor() -> _Decompressor:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - from Python 3.14 on
    except ImportError:
        try:
            from backports import zstd  # noqa: PLC0415 - in the extra
        except ImportError as error:
            message = f"it is compressed by zstd: {install_command('capture')}"
            raise OSError(message) from error
    return _Converting(zstd.ZstdDecompressor(), zstd.ZstdError)


class _Converting:
    """A decompressor whose errors are converted to OSError."""

    def __init__(self, decompressor: Any, error: type[Exception]) -> None:  # noqa: ANN401 - of two libraries
        self._decompressor = decompressor
        self._error = error

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decompressor.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return bytes(self._decompressor.decompress(data, max_length))
        except self._error as error:
            raise OSError(str(error)) from error


_FORMATS: Final[tuple[tuple[bytes, NewDecompressor], ...]] = (
    (b"\x1f\x8b", _GzipDecompressor),
    (b"\xfd7zXZ\0", _new_xz_decompressor),
    (b"\x28\xb5\x2f\xfd", _new_zstd_decompressor),
)
"""The first bytes of a compressed file, and its decompressor."""

MAGIC_BYTES: Final = max(len(magic) for magic, _ in _FORMATS)
"""The number of bytes from which `decompressor_of` recognises each format."""


def decompressor_of(first_bytes: bytes) -> NewDecompressor | None:
    """Return what decompresses a file with these first bytes; None if it is not compressed."""
    for magic, new_decompressor in _FORMATS:
        if first_bytes.startswith(magic):
            return new_decompressor
    return None


class DecompressedFile(io.RawIOBase):
    """The content of a compressed file.

    Reads of a cut or damaged file return all bytes before its end, and then raise EOFError or
    OSError.
    """

    def __init__(self, file: _Input, new_decompressor: NewDecompressor) -> None:
        self._file = file
        self._new_decompressor = new_decompressor
        self._decompressor: _Decompressor | None = None
        self._pending = b""
        """Compressed bytes that were read, and not decompressed yet."""
        self._failure: EOFError | OSError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, memory: Any, /) -> int:  # noqa: ANN401 - as in io
        """Fill the memory, or a part of it before the end of the file."""
        view = memoryview(memory).cast("B")
        count = 0
        while count < len(view) and self._failure is None:
            try:
                part = self._decompress(len(view) - count)
            except (EOFError, OSError) as failure:
                self._failure = failure
                break
            if not part:
                break
            view[count : count + len(part)] = part
            count += len(part)
        if self._failure is not None and not count:
            raise self._failure
        return count

    def _decompress(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end of the file."""
        while True:
            if self._decompressor is None:
                # Streams may be followed by zeros, and by other streams.
                self._pending = self._pending.lstrip(b"\0")
                if not self._pending:
                    self._pending = self._file.read(_INPUT_BYTES) or b""
                    if not self._pending:
                        return b""
                    continue
                self._decompressor = self._new_decompressor()
            data, self._pending = self._pending, b""
            part = self._decompressor.decompress(data, size)
            if self._decompressor.eof:
                self._pending = self._decompressor.unused_data
                self._decompressor = None
            elif not part:
                self._pending = self._file.read(_INPUT_BYTES) or b""
                if not self._pending:
                    raise EOFError
            if part:
                return part
