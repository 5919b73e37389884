"""The standard input as chunks and as lines, while other tasks run."""

from __future__ import annotations

import asyncio
import sys
from threading import Thread
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from io import BufferedReader, RawIOBase

_READ_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 100 * 1024 * 1024


class LongLineError(ValueError):
    """A line that is too long; the text has its number."""


async def input_lines(max_bytes: int = MAX_LINE_BYTES) -> AsyncIterator[list[bytes]]:
    """Yield the lines that have arrived, without their ends; raises LongLineError.

    A line ends with LF or CR LF. The last one may lack its end.
    """
    incomplete = bytearray()
    count = 0
    async for chunk in input_chunks():
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(incomplete) + lines[0]
            incomplete = bytearray(rest)
            count += len(lines)
            yield [line.removesuffix(b"\r") for line in lines]
        else:
            incomplete += rest
        if len(incomplete) > max_bytes:
            raise LongLineError(f"line {count + 1} is longer than {max_bytes:,} bytes")
    if incomplete:
        yield [bytes(incomplete).removesuffix(b"\r")]


async def input_chunks() -> AsyncIterator[bytes]:
    """Yield the bytes of the standard input as they arrive."""
    stream = cast("RawIOBase", cast("BufferedReader", sys.stdin.buffer).raw)
    while data := await _read(stream):
        yield data


async def _read(stream: RawIOBase) -> bytes:
    """Return the next bytes, none at the end.

    They are read in a thread that does not delay the end of the process, as an executor's would.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def resolve(data: bytes, error: OSError | None) -> None:
        if arrived.done():
            return
        if error is None:
            arrived.set_result(data)
        else:
            arrived.set_exception(error)

    def read() -> None:
        data, error = b"", None
        try:
            data = stream.read(_READ_BYTES) or b""
        except OSError as failure:
            error = failure
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve, data, error)

    Thread(target=read, daemon=True).start()
    return await arrived
