"""Length-prefixed frames out of a stream: where bytes are received, and what is kept of them.

All connections of one event loop receive into the same buffer: asking for it, receiving and
splitting are one synchronous step, so only a frame's unfinished rest is ever copied out. A frame
too large for it gets a buffer of its own, which grows as bytes arrive, never by what a length
field merely promises, and is reused by the next large frame.
"""

from __future__ import annotations

from struct import Struct

SHARED_BYTES = 256 * 1024
"""Size of the shared buffer, and the most that one read can bring."""

LENGTH_BYTES = 4
_LENGTH = Struct(">i")
_LARGE_BYTES = 4 * SHARED_BYTES
_LARGE_FROM_BYTES = 64 * 1024
"""A promise alone gets no large buffer, however large it is: this much must have come."""
_POOLED_BYTES = 16 * 1024 * 1024


class ReceiveBuffers:
    """The memory that one event loop's connections receive into."""

    __slots__ = ("_idle", "_idle_bytes", "shared", "shared_view")

    def __init__(self) -> None:
        self.shared = bytearray(SHARED_BYTES)
        self.shared_view = memoryview(self.shared)
        self._idle: list[bytearray] = []
        self._idle_bytes = 0

    def acquire(self) -> bytearray:
        """Return a large buffer, an idle one if there is any: fresh memory costs page faults."""
        if self._idle:
            buffer = self._idle.pop()
            self._idle_bytes -= len(buffer)
            return buffer
        return bytearray(_LARGE_BYTES)

    def release(self, buffer: bytearray) -> None:
        """Take back a large buffer; beyond 16 MiB of idle ones it is dropped."""
        if self._idle_bytes + len(buffer) <= _POOLED_BYTES:
            self._idle.append(buffer)
            self._idle_bytes += len(buffer)


class FrameBuffer:
    """What one connection has received and not yet used up.

    Between `space` and `received`, and between either of `received` and `kept` and the `keep`
    that follows it, the shared buffer belongs to this connection.
    """

    __slots__ = ("_buffers", "_filled", "_large", "_rest")

    def __init__(self, buffers: ReceiveBuffers) -> None:
        self._buffers = buffers
        self._rest = b""
        """Unused bytes between two reads, unless they are in a large buffer."""
        self._large: bytearray | None = None
        self._filled = 0
        """How much of the large buffer is in use."""

    @property
    def buffered(self) -> int:
        """How many bytes are kept."""
        return len(self._rest) if self._large is None else self._filled

    def space(self) -> memoryview:
        """Return where to receive: at least one byte."""
        large = self._large
        if large is not None:
            if self._filled == len(large):
                # Memory follows what has arrived: doubled when full, whatever was promised.
                self._large = grown = bytearray(2 * len(large))
                grown[: len(large)] = large
                large = grown
            return memoryview(large)[self._filled :]
        rest = self._rest
        if not rest:
            return self._buffers.shared_view
        self._buffers.shared[: len(rest)] = rest
        return self._buffers.shared_view[len(rest) :]

    def received(self, count: int) -> tuple[bytearray, int]:
        """Return the buffer that holds all bytes, `count` new ones included, and their end."""
        if self._large is not None:
            self._filled += count
            return self._large, self._filled
        return self._buffers.shared, len(self._rest) + count

    def kept(self) -> tuple[bytearray, int]:
        """Return the buffer that holds all kept bytes, and their end."""
        if self._large is not None:
            return self._large, self._filled
        rest = self._rest
        self._buffers.shared[: len(rest)] = rest
        return self._buffers.shared, len(rest)

    def keep(self, start: int, end: int) -> None:
        """Keep the bytes from `start` to `end` of the buffer last given out; drop the others."""
        count = end - start
        large = self._large
        if not count:
            self.clear()
            return
        source = memoryview(self._buffers.shared if large is None else large)
        if count < (LENGTH_BYTES if large else _LARGE_FROM_BYTES) or (
            count < SHARED_BYTES >= LENGTH_BYTES + frame_length(source, start)
        ):
            rest = bytes(source[start:end])
            self.clear()
            self._rest = rest
            return
        if large is None:
            self._large = large = self._buffers.acquire()
            self._rest = b""
        if start or self._filled == 0:
            memoryview(large)[:count] = source[start:end]
        self._filled = count

    def clear(self) -> None:
        """Keep nothing."""
        self._rest = b""
        self._filled = 0
        large, self._large = self._large, None
        if large is not None:
            self._buffers.release(large)


def frame_length(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Return the length field at `position`: how many bytes follow it."""
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    return length
