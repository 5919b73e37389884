"""Unit tests of the ring buffer: order, completeness, wrap-around."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.recording import ring_buffer as ring_module
from kafkalite.capture.recording.ring_buffer import RingBuffer, Room, new_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 4096


class RingEnds:
    """Both ends of a small ring."""

    def __init__(self) -> None:
        fd = new_memory(SIZE)
        self.writer, self.reader = RingBuffer(fd), RingBuffer(fd)
        os.close(fd)

    def put(self, kind: int, number: int, at_ns: int, data: bytes) -> bool:
        """Write a record as the recorder does."""
        if self.writer.put(kind, number, at_ns, data):
            return True
        return self.writer.make_room(len(data)) is not Room.NONE and self.writer.put(
            kind, number, at_ns, data
        )

    def read(self) -> list[ring_module.Record]:
        records = list(self.reader.read(self.reader.head))
        self.reader.free()
        return records

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture
def ends() -> Iterator[RingEnds]:
    both = RingEnds()
    yield both
    both.close()


@given(st.lists(st.binary(max_size=SIZE // 8) | st.none(), max_size=60))
def test_records_are_read_in_order(steps: list[bytes | None]) -> None:
    both = RingEnds()
    expected, found = [], []
    for number, data in enumerate(steps):
        if data is None:
            found += both.read()
            continue
        record = (number % 5, number * 2**20, number - 3, data)
        if both.put(*record):
            expected.append(record)
        else:
            found += both.read()
            assert both.put(*record)
            expected.append(record)
    found += both.read()
    both.close()
    assert found == expected


def test_full_ring_rejects_records(ends: RingEnds) -> None:
    count = 0
    while ends.put(1, count, 0, bytes(100)):
        count += 1
    assert count == SIZE // 128
    assert not ends.put(1, count, 0, b"")
    assert not ends.writer.is_half_free()
    assert [number for _, number, _, _ in ends.read()] == list(range(count))
    assert ends.writer.is_half_free()
    assert ends.put(1, count, 0, bytes(SIZE // 8))


def test_records_after_the_head_are_not_read(ends: RingEnds) -> None:
    ends.put(1, 1, 1, b"seen")
    head = ends.reader.head
    ends.put(1, 2, 2, b"later")
    assert list(ends.reader.read(head)) == [(1, 1, 1, b"seen")]
    assert ends.read() == [(1, 2, 2, b"later")]


def test_space_of_read_records_is_reused_after_free(ends: RingEnds) -> None:
    while ends.put(1, 0, 0, bytes(100)):
        pass
    assert list(ends.reader.read(ends.reader.head))
    assert not ends.put(1, 0, 0, bytes(100))
    ends.reader.free()
    assert ends.put(1, 0, 0, bytes(100))


def test_large_data_is_not_copied() -> None:
    fd = new_memory(16 * ring_module.MIN_VIEW_BYTES)
    writer, reader = RingBuffer(fd), RingBuffer(fd)
    os.close(fd)
    assert writer.make_room(ring_module.MIN_VIEW_BYTES) is not Room.NONE
    assert writer.put(1, 2, 3, b"x" * ring_module.MIN_VIEW_BYTES)
    ((_, _, _, data),) = reader.read(reader.head)
    assert isinstance(data, memoryview)
    assert data == b"x" * ring_module.MIN_VIEW_BYTES
    data.release()
    writer.close()
    reader.close()


def test_reader_is_woken_at_intervals(ends: RingEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "WAKE_BYTES", SIZE // 8)
    rooms = []
    for _ in range(24):
        if not ends.writer.put(0, 0, 0, bytes(104)):
            rooms.append(ends.writer.make_room(104))
            ends.writer.put(0, 0, 0, bytes(104))
    assert rooms.count(Room.WAKE) == 6


def test_ring_that_rejects_writes_accepts_them_after_make_room(ends: RingEnds) -> None:
    assert ends.put(0, 0, 0, b"a")
    ends.writer.reject_writes()
    assert not ends.writer.put(0, 0, 0, b"b")
    assert ends.writer.make_room(1) is not Room.NONE
    assert ends.writer.put(0, 0, 0, b"c")
    assert [data for *_, data in ends.read()] == [b"a", b"c"]


def test_temporary_file_is_used_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    both = RingEnds()
    assert both.put(3, 4, 5, memoryview(b"x" * 50))  # type: ignore[arg-type]
    assert both.read() == [(3, 4, 5, b"x" * 50)]
    both.close()
