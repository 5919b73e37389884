"""Lane: when the bytes of one direction arrive."""

from __future__ import annotations

import pytest

from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.lane import Lane
from kafkalite.server.link_rules import UNCHANGED, Shape
from kafkalite.testing.clock import ManualClock

CUT = Shape(is_cut=True)


class Way:
    """A lane, and the bytes that have arrived with their times."""

    def __init__(self, shape: Shape = UNCHANGED, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.start_ms = self.clock.now_ms()
        self.arrivals: list[tuple[int, bytes]] = []
        self.capacity = 1 << 30
        self.lane = Lane(self.clock, SeededEntropy(seed), self.deliver)
        self.lane.change(shape)

    def deliver(self, data: memoryview) -> memoryview:
        accepted = min(self.capacity, len(data))
        self.capacity -= accepted
        if accepted:
            self.arrivals.append((self.clock.now_ms() - self.start_ms, bytes(data[:accepted])))
        return data[accepted:]

    def send(self, data: bytes) -> None:
        self.lane.send(memoryview(data))


def test_bytes_arrive_at_once_if_nothing_disturbs_them() -> None:
    way = Way()
    way.send(b"abc")
    assert (way.arrivals, way.lane.size) == ([(0, b"abc")], 0)
    assert way.clock.next_deadline_ms is None


def test_bytes_arrive_after_the_latency_in_their_order() -> None:
    way = Way(Shape(latency_ms=50))
    way.send(b"a")
    way.clock.advance(20)
    way.send(b"b")
    way.clock.advance(29)
    assert (way.arrivals, way.lane.size) == ([], 2)
    way.clock.advance(100)
    assert way.arrivals == [(50, b"a"), (70, b"b")]


@pytest.mark.parametrize("seed", range(5))
def test_jitter_does_not_reorder_bytes_and_follows_from_the_seed(seed: int) -> None:
    def times() -> list[int]:
        way = Way(Shape(latency_ms=10, jitter_ms=30), seed)
        for number in range(20):
            way.send(bytes([number]))
            way.clock.advance(1)
        way.clock.advance(100)
        assert b"".join(data for _, data in way.arrivals) == bytes(range(20))
        return [time for time, _ in way.arrivals]

    first = times()
    assert first == times()
    assert first == sorted(first)
    assert min(first) >= 10
    assert all(10 <= time - sent <= 59 for sent, time in enumerate(first))


class CountingEntropy(SeededEntropy):
    """Randomness that counts its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0

    def integer(self, bound: int) -> int:
        self.draws += 1
        return super().integer(bound)


def test_a_large_message_needs_no_work_and_no_memory_for_pieces_that_arrive_later() -> None:
    clock, entropy = ManualClock(), CountingEntropy()
    lane = Lane(clock, entropy, lambda data: data[:0])
    lane.change(Shape(jitter_ms=1, bytes_per_second=1))
    lane.send(memoryview(bytes(100_000)))
    assert (entropy.draws, lane.size) == (1, 100_000)
    clock.advance(3000)
    assert (entropy.draws, lane.size) in {(3, 99_998), (4, 99_997)}


def test_bytes_arrive_in_pieces_with_a_bandwidth() -> None:
    way = Way(Shape(bytes_per_second=100))
    way.send(b"12345678901")
    way.clock.advance(1000)
    assert way.arrivals == [(50, b"12345"), (100, b"67890"), (110, b"1")]
    way.send(b"ab")
    way.clock.advance(1000)
    assert way.arrivals[-1] == (1020, b"ab")


def test_bytes_of_a_cut_lane_arrive_when_it_is_healed() -> None:
    way = Way(Shape(latency_ms=5))
    way.send(b"a")
    way.lane.change(CUT)
    way.send(b"b")
    way.clock.advance(1000)
    assert way.arrivals == []
    assert way.clock.next_deadline_ms is None
    way.lane.change(UNCHANGED)
    assert way.arrivals == [(1000, b"a"), (1000, b"b")]


def test_sent_bytes_may_change_afterwards() -> None:
    way = Way(CUT)
    buffer = bytearray(b"ab")
    way.send(buffer)  # type: ignore[arg-type]  # a buffer that is used again
    buffer[:] = b"xy"
    way.lane.change(UNCHANGED)
    assert way.arrivals == [(0, b"ab")]


@pytest.mark.parametrize("shape", [UNCHANGED, Shape(latency_ms=1)])
def test_the_rest_is_delivered_when_there_is_room_again(shape: Shape) -> None:
    way = Way(shape)
    way.capacity = 2
    way.send(b"abc")
    way.send(b"d")
    way.clock.advance(1)
    assert ([data for _, data in way.arrivals], way.lane.size) == ([b"ab"], 2)
    way.capacity = 10
    way.clock.advance(1000)
    assert way.lane.size == 2
    way.lane.resume()
    assert [data for _, data in way.arrivals] == [b"ab", b"c", b"d"]


def test_a_closed_lane_drops_its_bytes() -> None:
    way = Way(Shape(latency_ms=1))
    way.send(b"a")
    way.lane.close()
    assert (way.lane.size, way.clock.next_deadline_ms) == (0, None)
    way.clock.advance(5)
    assert way.arrivals == []
