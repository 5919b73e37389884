"""Length-prefixed frames in a byte stream, and the buffers that receive them.

All connections of one event loop receive into the same buffer. A connection gets the buffer,
receives and splits the bytes into frames in one synchronous step, so only an incomplete frame is
copied out. A frame that is too large for the shared buffer gets a buffer of its own. That buffer
grows as bytes arrive and is never allocated from the length field alone; the next large frame uses
it again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kafkalite.ports.memory import growable_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED_BUFFER_BYTES = 256 * 1024
"""Size of the shared buffer, which is the maximum size of one read."""

LENGTH_BYTES = 4
_LENGTH = Struct(">i")
_MIN_LARGE_BYTES = 64 * 1024
"""The received size at which a frame larger than the shared buffer gets its own buffer."""
_MAX_GROWTH_BYTES = 1024 * 1024
_MIN_IN_PLACE_BYTES = 4 * 1024 * 1024
"""The size from which on a large buffer grows without a copy."""
_ZEROS = bytes(_MAX_GROWTH_BYTES)
"""A temporary object would occupy the memory after the buffer that grows."""
_MAX_IDLE_BYTES = 16 * 1024 * 1024
_MAX_IDLE_SHARED_BUFFERS = 4
_UNLIMITED = 1 << 62


class ReceiveBuffers:
    """The memory into which the connections of one event loop receive.

    `limit_bytes` bounds the growth of large buffers in use: above it `can_allocate` is false, and
    connections that need more must wait. `on_release` is called when a large buffer is no longer in
    use, `on_drop` when it is then freed instead of reused.
    """

    __slots__ = (
        "_idle", "_idle_bytes", "_idle_shared", "_limit_bytes", "in_use_bytes", "on_drop",
        "on_release", "shared", "shared_view",
    )  # fmt: skip

    shared: bytearray
    shared_view: memoryview

    def __init__(
        self,
        limit_bytes: int = _UNLIMITED,
        on_release: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self.on_release = on_release
        self.on_drop: Callable[[], None] = lambda: None
        self.in_use_bytes = 0
        """Size of the large buffers in use."""
        self._idle: list[bytearray] = []
        self._idle_bytes = 0
        self._idle_shared: list[bytearray] = []

    def __getattr__(self, name: str) -> bytearray | memoryview:
        """Make the shared buffer at its first use: a cluster without clients needs none."""
        if name not in {"shared", "shared_view"}:
            raise AttributeError(name)
        self.shared = bytearray(SHARED_BUFFER_BYTES)
        self.shared_view = memoryview(self.shared)
        return self.shared if name == "shared" else self.shared_view

    def can_allocate(self, count: int) -> bool:
        """Return whether large buffers may use `count` more bytes."""
        return self.in_use_bytes + count <= self._limit_bytes

    def acquire(self, count: int) -> bytearray:
        """Return a large buffer for more than `count` bytes.

        This is an idle buffer if there is one, because its memory causes no page faults. The size
        of a new one depends on the bytes that have arrived, not on the length field.
        """
        if self._idle and len(self._idle[-1]) > count:
            buffer = self._idle.pop()
            self._idle_bytes -= len(buffer)
        else:
            buffer = bytearray(1 << count.bit_length())
        self.in_use_bytes += len(buffer)
        return buffer

    def grow(self, buffer: bytearray) -> bytearray:
        """Return a larger buffer that begins with the same bytes.

        It is the same one from _MIN_IN_PLACE_BYTES on, which grows without a copy. Others would
        wait for a copy. The caller has added `growth_bytes` to `in_use_bytes`.
        """
        count = growth_bytes(buffer)
        size = len(buffer) + count
        if not len(buffer) < _MIN_IN_PLACE_BYTES <= size:
            try:
                buffer += memoryview(_ZEROS)[:count]
            except BufferError:  # records in the buffer are still in use
                pass
            else:
                return buffer
        grown = growable_buffer(size) if size >= _MIN_IN_PLACE_BYTES else bytearray(size)
        grown[: len(buffer)] = buffer
        return grown

    def release(self, buffer: bytearray) -> None:
        """Take back a large buffer; it is freed if 16 MiB of buffers are idle."""
        self.in_use_bytes -= len(buffer)
        if self._idle_bytes + len(buffer) <= _MAX_IDLE_BYTES:
            self._idle.append(buffer)
            self._idle_bytes += len(buffer)
        else:
            self.on_drop()
        self.on_release()

    def drop_idle(self) -> None:
        """Free the buffers that are not in use."""
        self._idle.clear()
        self._idle_bytes = 0
        self._idle_shared.clear()

    def lend_shared_buffer(self) -> bytearray:
        """Transfer the shared buffer to the caller, and use another one as shared buffer."""
        lent = self.shared
        idle = self._idle_shared
        self.shared = idle.pop() if idle else bytearray(SHARED_BUFFER_BYTES)
        self.shared_view = memoryview(self.shared)
        return lent

    def return_shared_buffer(self, buffer: bytearray) -> None:
        """Take back a buffer from `lend_shared_buffer`."""
        if len(self._idle_shared) < _MAX_IDLE_SHARED_BUFFERS:
            self._idle_shared.append(buffer)


class FrameBuffer:
    """The received bytes of one connection that are not served yet.

    The shared buffer belongs to this connection from `get_buffer` to `buffer_updated`, and from
    `buffer_updated` or `restore` to the next `store`. After `pin`, the bytes remain in place until
    a buffer is returned again.
    """

    __slots__ = (
        "_buffers",
        "_large",
        "_large_used_bytes",
        "_pinned",
        "_reserved_bytes",
        "_stored",
    )

    def __init__(self, buffers: ReceiveBuffers) -> None:
        self._buffers = buffers
        self._stored = b""
        """Stored bytes between two reads, unless they are in a large buffer."""
        self._large: bytearray | None = None
        self._pinned: bytearray | None = None
        """A formerly shared buffer from which a request is being served."""
        self._large_used_bytes = 0
        """The number of used bytes in the large buffer."""
        self._reserved_bytes = 0
        """The number of bytes by which the large buffer may grow at the next read."""

    @property
    def stored_bytes(self) -> int:
        """The number of stored bytes."""
        return len(self._stored) if self._large is None else self._large_used_bytes

    def reserve(self) -> bool:
        """Take the memory that the next read needs; return False if the limit does not allow it.

        The only connection that uses large buffers always gets more memory. Otherwise its request
        could never be completed. The buffer grows at the next read: until then the event loop may
        hold a view of it, and it would have to be copied.
        """
        large, buffers = self._large, self._buffers
        if large is None or self._large_used_bytes < len(large) or self._reserved_bytes:
            return True
        count = growth_bytes(large)
        if buffers.in_use_bytes > len(large) and not buffers.can_allocate(count):
            return False
        self._reserved_bytes = count
        buffers.in_use_bytes += count
        return True

    def get_buffer(self) -> memoryview:
        """Return the free part of the buffer to receive into: at least one byte."""
        large = self._large
        if large is not None:
            if self._large_used_bytes == len(large):
                if not self._reserved_bytes:
                    self._buffers.in_use_bytes += growth_bytes(large)
                self._reserved_bytes = 0
                self._large = large = self._buffers.grow(large)
            return memoryview(large)[self._large_used_bytes :]
        stored = self._stored
        if not stored:
            return self._buffers.shared_view
        self._buffers.shared[: len(stored)] = stored
        return self._buffers.shared_view[len(stored) :]

    def buffer_updated(self, count: int) -> tuple[bytearray, int]:
        """Return the buffer with all bytes, including `count` new ones, and their end."""
        if self._large is not None:
            self._large_used_bytes += count
            return self._large, self._large_used_bytes
        if self._pinned is not None:
            self._unpin()
        return self._buffers.shared, len(self._stored) + count

    def restore(self) -> tuple[bytearray, int]:
        """Return a buffer with all stored bytes, and their end."""
        if self._large is not None:
            return self._large, self._large_used_bytes
        if self._pinned is not None:
            self._unpin()
        stored = self._stored
        self._buffers.shared[: len(stored)] = stored
        return self._buffers.shared, len(stored)

    def pin(self) -> None:
        """Leave the bytes of the last returned buffer in place until a buffer is returned again."""
        if self._large is None and self._pinned is None:
            self._pinned = self._buffers.lend_shared_buffer()

    def store(self, start: int, end: int) -> None:
        """Store the bytes from `start` to `end` of the last returned buffer; drop the others."""
        count = end - start
        large = self._large
        if not count:
            self.clear()
            return
        source = memoryview(self._current_buffer())
        if count < (LENGTH_BYTES if large else _MIN_LARGE_BYTES) or (
            count < SHARED_BUFFER_BYTES >= LENGTH_BYTES + frame_length(source, start)
        ):
            stored = bytes(source[start:end])
            self.clear()
            self._stored = stored
            return
        if large is None:
            self._large = large = self._buffers.acquire(count)
            self._stored = b""
            memoryview(large)[:count] = source[start:end]
            self._unpin()
        elif start:
            memoryview(large)[:count] = source[start:end]
        self._large_used_bytes = count

    def clear(self) -> None:
        """Drop all bytes."""
        self._stored = b""
        self._large_used_bytes = 0
        self._unpin()
        large, self._large = self._large, None
        if large is not None:
            self._buffers.in_use_bytes -= self._reserved_bytes
            self._reserved_bytes = 0
            self._buffers.release(large)

    def _current_buffer(self) -> bytearray:
        if self._large is not None:
            return self._large
        return self._buffers.shared if self._pinned is None else self._pinned

    def _unpin(self) -> None:
        pinned, self._pinned = self._pinned, None
        if pinned is not None:
            self._buffers.return_shared_buffer(pinned)


def growth_bytes(buffer: bytearray) -> int:
    """Return the number of bytes by which a large buffer grows: it doubles, up to a limit."""
    return min(len(buffer), _MAX_GROWTH_BYTES)


def frame_length(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Return the length field at `position`: the number of bytes after it."""
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    return length
