"""FrameBuffer and ReceiveBuffers: where received bytes are stored between reads."""

from __future__ import annotations

import sys
from struct import pack

import pytest

from kafkalite.wire.frames import SHARED_BUFFER_BYTES, FrameBuffer, ReceiveBuffers, frame_length


def receive(frames: FrameBuffer, data: bytes) -> tuple[bytearray, int]:
    """Write `data` into the buffer; it must fit in one read."""
    space = frames.get_buffer()
    space[: len(data)] = data
    return frames.buffer_updated(len(data))


def receive_and_store(frames: FrameBuffer, data: bytes, used: int = 0) -> None:
    _, end = receive(frames, data)
    frames.store(used, end)


@pytest.fixture
def buffers() -> ReceiveBuffers:
    return ReceiveBuffers()


def test_an_incomplete_frame_is_complete_after_the_next_read(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", 6) + b"abc")
    buffer, end = receive(frames, b"def")
    assert bytes(buffer[:end]) == pack(">i", 6) + b"abcdef"


def test_connections_with_a_shared_buffer_do_not_interfere(buffers: ReceiveBuffers) -> None:
    one, other = FrameBuffer(buffers), FrameBuffer(buffers)
    receive_and_store(one, pack(">i", 8) + b"one-")
    receive_and_store(other, pack(">i", 8) + b"two-")
    buffer, end = receive(one, b"more")
    assert bytes(buffer[4:end]) == b"one-more"
    one.store(end, end)
    buffer, end = receive(other, b"more")
    assert bytes(buffer[4:end]) == b"two-more"


def test_served_bytes_are_dropped(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, b"used" + b"rest", used=4)
    assert frames.stored_bytes == 4
    buffer, end = frames.restore()
    assert bytes(buffer[:end]) == b"rest"


@pytest.mark.parametrize(
    "size", [SHARED_BUFFER_BYTES - 4, SHARED_BUFFER_BYTES - 3, 3 * SHARED_BUFFER_BYTES, 5_000_000]
)
def test_a_frame_of_any_size_is_received(buffers: ReceiveBuffers, size: int) -> None:
    frames = FrameBuffer(buffers)
    body = bytes(index % 251 for index in range(size))
    sent = memoryview(pack(">i", size) + body + b"\0\0\0\x02ok")
    end = used = 0
    while sent:
        space = frames.get_buffer()
        count = min(len(space), len(sent), 100_000)
        assert count
        space[:count] = sent[:count]
        sent = sent[count:]
        buffer, end = frames.buffer_updated(count)
        used = 0
        if end >= 4 + size:
            assert frame_length(buffer, 0) == size
            assert bytes(buffer[4 : 4 + size]) == body
            used = 4 + size
        frames.store(used, end)
    buffer, end = frames.restore()
    assert bytes(buffer[:end]) == b"\0\0\0\x02ok"


def test_memory_depends_on_received_bytes_and_not_on_the_length_field(
    buffers: ReceiveBuffers,
) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", 100_000_000) + b"a little")
    assert len(frames.get_buffer()) < 2 * 1024 * 1024


def test_a_length_field_alone_takes_no_memory(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", 100_000_000))
    receive_and_store(frames, b"x" * 50_000)
    assert frames.get_buffer().obj is buffers.shared
    receive_and_store(frames, b"x" * 50_000)
    assert frames.get_buffer().obj is not buffers.shared
    assert frames.stored_bytes == 100_004


def test_large_buffers_are_reused(buffers: ReceiveBuffers) -> None:
    large = buffers.acquire(100_000)
    buffers.release(large)
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", SHARED_BUFFER_BYTES * 2) + bytes(100_000))
    assert buffers.acquire(100_000) is not large
    frames.clear()
    assert buffers.acquire(100_000) is large


def test_idle_memory_is_limited(buffers: ReceiveBuffers) -> None:
    dropped: list[None] = []
    buffers.on_drop = lambda: dropped.append(None)
    many = [buffers.acquire(100_000) for _ in range(64)]
    for buffer in many:
        buffers.release(buffer)
    again = [buffers.acquire(100_000) for _ in range(64)]
    used_again = {id(buffer) for buffer in again} & {id(buffer) for buffer in many}
    assert 0 < len(used_again) * len(many[0]) <= 16 * 1024 * 1024
    assert len(dropped) + len(used_again) == len(many)


def test_many_complete_frames_fill_the_buffer_without_losing_space(
    buffers: ReceiveBuffers,
) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, b"\0\0\0\0" * (SHARED_BUFFER_BYTES // 4))
    assert frames.stored_bytes == SHARED_BUFFER_BYTES
    assert len(frames.get_buffer()) > 0


def test_clear_drops_everything(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, b"abc")
    frames.clear()
    assert frames.stored_bytes == 0
    assert frames.get_buffer() is buffers.shared_view


FIRST_BYTES = 128 * 1024
"""The size of the buffer of a large frame after half of that has arrived."""


def full_buffer(buffers: ReceiveBuffers) -> FrameBuffer:
    """Return a full buffer of FIRST_BYTES with an incomplete frame."""
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", 10_000_000) + bytes(FIRST_BYTES // 2))
    receive_and_store(frames, bytes(len(frames.get_buffer())))
    assert frames.stored_bytes == FIRST_BYTES
    return frames


def test_memory_is_taken_by_reserve() -> None:
    buffers = ReceiveBuffers(limit_bytes=3 * FIRST_BYTES)
    first, second = full_buffer(buffers), full_buffer(buffers)
    assert first.reserve()
    assert buffers.in_use_bytes == 3 * FIRST_BYTES
    assert not second.reserve()
    first.clear()
    assert second.reserve()


def test_one_frame_may_need_more_than_the_limit() -> None:
    buffers = ReceiveBuffers(limit_bytes=FIRST_BYTES)
    frames = full_buffer(buffers)
    assert frames.reserve()
    assert len(frames.get_buffer()) == FIRST_BYTES
    assert buffers.in_use_bytes == 2 * FIRST_BYTES


def test_a_buffer_with_free_space_reserves_nothing(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    assert frames.reserve()
    receive_and_store(frames, pack(">i", 10_000_000) + bytes(FIRST_BYTES // 2))
    assert frames.reserve()
    assert buffers.in_use_bytes == FIRST_BYTES


def test_a_large_buffer_grows_in_place_and_in_limited_steps(buffers: ReceiveBuffers) -> None:
    frames = FrameBuffer(buffers)
    receive_and_store(frames, pack(">i", 50_000_000) + bytes(range(256)) * 512)
    grown: dict[int, bytearray] = {}
    while (buffer := frames.restore()[0]) is not None and len(buffer) < 8 << 20:
        grown[len(buffer)] = buffer
        space = frames.get_buffer()
        space[-1] = 7
        frames.store(0, frames.buffer_updated(len(space))[1])
        # An event loop holds the view until it has called `buffer_updated`.
        assert frames.reserve()
        del space
    assert [size >> 20 for size in grown][-4:] == [4, 5, 6, 7]
    assert len({id(buffer) for size, buffer in grown.items() if size >= 4 << 20}) == 1
    assert bytes(buffer[4 : 4 + 256 * 512]) == bytes(range(256)) * 512
    assert buffers.in_use_bytes == len(buffer) + (1 << 20)
    frames.clear()
    assert buffers.in_use_bytes == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries copy")
def test_no_bytes_are_copied_while_several_large_buffers_grow() -> None:
    # Windows has no such module.
    resource = pytest.importorskip("resource")

    def page_faults() -> int:
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

    buffers = ReceiveBuffers()
    growing = [buffers.grow(bytearray(b"x") * (3 << 20)) for _ in range(2)]
    faults = page_faults()
    for _ in range(32):
        growing = [buffers.grow(buffer) for buffer in growing]
    pages = (page_faults() - faults) * resource.getpagesize()
    assert pages < 2 * (32 << 20) * 1.5, "each copy touches the pages of the whole buffer"


def test_a_large_buffer_whose_bytes_are_in_use_is_copied() -> None:
    buffer = bytearray(b"records")
    with memoryview(buffer) as view:
        grown = ReceiveBuffers().grow(buffer)
        assert grown is not buffer
        assert grown == b"records" + bytes(7)
        assert bytes(view) == b"records"
