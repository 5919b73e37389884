"""The ring: what is put is taken, in order and whole, however often it goes round."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture import ring as ring_module
from kafkalite.capture.ring import Ring, Room, new_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 4096


class Ends:
    """Both ends of a small ring."""

    def __init__(self) -> None:
        fd = new_memory(SIZE)
        self.putter, self.taker = Ring(fd), Ring(fd)
        os.close(fd)

    def put(self, kind: int, number: int, at_ns: int, data: bytes) -> bool:
        """Put as the recorder does."""
        if self.putter.put(kind, number, at_ns, data):
            return True
        return self.putter.make_room(len(data)) is not Room.NONE and self.putter.put(
            kind, number, at_ns, data
        )

    def take(self) -> list[ring_module.Record]:
        taken = list(self.taker.take(self.taker.head))
        self.taker.free()
        return taken

    def close(self) -> None:
        self.putter.close()
        self.taker.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    both = Ends()
    yield both
    both.close()


@given(st.lists(st.binary(max_size=SIZE // 8) | st.none(), max_size=60))
def test_what_is_put_is_taken_in_order(steps: list[bytes | None]) -> None:
    both = Ends()
    wanted, got = [], []
    for number, data in enumerate(steps):
        if data is None:
            got += both.take()
            continue
        record = (number % 5, number * 2**20, number - 3, data)
        if both.put(*record):
            wanted.append(record)
        else:
            got += both.take()
            assert both.put(*record)
            wanted.append(record)
    got += both.take()
    both.close()
    assert got == wanted


def test_a_full_ring_takes_nothing_and_harms_nothing(ends: Ends) -> None:
    count = 0
    while ends.put(1, count, 0, bytes(100)):
        count += 1
    assert count == SIZE // 128
    assert not ends.put(1, count, 0, b"")
    assert not ends.putter.has_half()
    assert [number for _, number, _, _ in ends.take()] == list(range(count))
    assert ends.putter.has_half()
    assert ends.put(1, count, 0, bytes(SIZE // 8))


def test_a_record_is_taken_only_if_it_was_there_when_looked(ends: Ends) -> None:
    ends.put(1, 1, 1, b"seen")
    head = ends.taker.head
    ends.put(1, 2, 2, b"later")
    assert list(ends.taker.take(head)) == [(1, 1, 1, b"seen")]
    assert ends.take() == [(1, 2, 2, b"later")]


def test_what_was_taken_keeps_its_place_until_that_is_free(ends: Ends) -> None:
    while ends.put(1, 0, 0, bytes(100)):
        pass
    assert list(ends.taker.take(ends.taker.head))
    assert not ends.put(1, 0, 0, bytes(100))
    ends.taker.free()
    assert ends.put(1, 0, 0, bytes(100))


def test_much_data_is_looked_at_where_it_is() -> None:
    fd = new_memory(16 * ring_module.VIEWED_BYTES)
    putter, taker = Ring(fd), Ring(fd)
    os.close(fd)
    assert putter.make_room(ring_module.VIEWED_BYTES) is not Room.NONE
    assert putter.put(1, 2, 3, b"x" * ring_module.VIEWED_BYTES)
    ((_, _, _, data),) = taker.take(taker.head)
    assert isinstance(data, memoryview)
    assert data == b"x" * ring_module.VIEWED_BYTES
    data.release()
    putter.close()
    taker.close()


def test_the_taker_is_to_be_roused_now_and_then(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_module, "ROUSE_BYTES", SIZE // 8)
    rooms = []
    for _ in range(24):
        if not ends.putter.put(0, 0, 0, bytes(104)):
            rooms.append(ends.putter.make_room(104))
            ends.putter.put(0, 0, 0, bytes(104))
    assert rooms.count(Room.ROUSE) == 6


def test_shut_it_takes_nothing_until_room_is_made(ends: Ends) -> None:
    assert ends.put(0, 0, 0, b"a")
    ends.putter.shut()
    assert not ends.putter.put(0, 0, 0, b"b")
    assert ends.putter.make_room(1) is not Room.NONE
    assert ends.putter.put(0, 0, 0, b"c")
    assert [data for *_, data in ends.take()] == [b"a", b"c"]


def test_memory_without_memfd_serves_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    both = Ends()
    assert both.put(3, 4, 5, memoryview(b"x" * 50))  # type: ignore[arg-type]
    assert both.take() == [(3, 4, 5, b"x" * 50)]
    both.close()
