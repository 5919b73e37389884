"""Unit tests of splitting bytes into frames, and of finding boundaries after missing bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.reading.framing import CompleteFrame, Framer, PartialFrame, Verdict
from kafkalite.capture.reading.reassembly import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = b"FRAME"


class MarkedFrameFinder:
    """Recognises frames that begin with a mark."""

    overlap_bytes = 3 + len(MARK)

    def candidates(self, buffer: bytearray, start: int) -> Iterator[int]:
        found = buffer.find(MARK, start + 4)
        while found >= 0:
            yield found - 4
            found = buffer.find(MARK, found + 1)

    def check(self, buffer: bytearray, candidate: int) -> Verdict:
        size = int.from_bytes(buffer[candidate : candidate + 4])
        if size > 100:
            return Verdict.NO
        return Verdict.YES if candidate + 4 + size <= len(buffer) else Verdict.UNKNOWN


def framer(
    *, is_synchronized: bool = True, max_frame_bytes: int = 1000
) -> tuple[Framer, list[str]]:
    reports: list[str] = []
    made = Framer(
        MarkedFrameFinder(),
        is_synchronized=is_synchronized,
        max_frame_bytes=max_frame_bytes,
        report=reports.append,
    )
    return made, reports


def piece(data: bytes, number: int = 0) -> Piece:
    return Piece(data, number, "f", number)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(
    bodies=st.lists(st.binary(max_size=40), max_size=12),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
)
def test_frames_do_not_depend_on_pieces(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame, bodies))
    starts = [sum(len(frame(body)) for body in bodies[:nth]) for nth in range(len(bodies))]
    split, reports = framer()
    found: list[CompleteFrame] = []
    ends: list[int] = []
    start = 0
    while start < len(data):
        size = cuts[len(ends) % len(cuts)]
        found += split.feed(piece(data[start : start + size], len(ends)))
        start += size
        ends.append(start)
    assert [each.body for each in found] == bodies
    assert reports == []

    def piece_of(position: int) -> int:
        return next(number for number, end in enumerate(ends) if position < end)

    for each, body, begin in zip(found, bodies, starts, strict=True):
        assert each.offset == piece_of(begin)
        assert each.at_ns == piece_of(begin + 3 + len(body))


def test_gap_within_a_frame_loses_only_that_frame() -> None:
    split, _ = framer()
    data = frame(b"one") + frame(b"twotwotwo") + frame(b"three")
    assert [each.body for each in split.feed(piece(data[:13]))] == [b"one"]
    split.skip_missing(4)
    assert split.is_synchronized
    assert split.partial_frame is None
    assert [each.body for each in split.feed(piece(data[17:]))] == [b"three"]


def test_second_gap_within_a_frame_is_skipped() -> None:
    split, _ = framer()
    split.feed(piece(frame(bytes(20))[:8]))
    split.skip_missing(3)
    assert split.feed(piece(bytes(5))) == []
    split.skip_missing(6)
    assert [each.body for each in split.feed(piece(bytes(2) + frame(b"x")))] == [b"x"]


def test_after_a_gap_over_frames_the_next_frame_is_searched() -> None:
    split, _ = framer()
    split.feed(piece(frame(b"one")[:5]))
    split.skip_missing(10)
    assert not split.is_synchronized
    rest = b"junk" + frame(MARK + b"two") + frame(b"three")
    assert split.feed(piece(rest[:9], 1)) == []
    found = split.feed(piece(rest[9:], 2))
    assert [(each.body, each.at_ns, each.offset) for each in found] == [
        (MARK + b"two", 2, 1),
        (b"three", 2, 2),
    ]
    assert split.is_synchronized


def test_invalid_length_is_reported_and_the_next_frame_is_searched() -> None:
    split, reports = framer()
    data = frame(b"one") + b"\xff\xff\xff\xff" + frame(MARK + b"two")
    assert [each.body for each in split.feed(piece(data))] == [b"one", MARK + b"two"]
    assert reports == ["invalid frame length -1"]
    split, reports = framer(max_frame_bytes=10)
    assert split.feed(piece(frame(bytes(11)))) == []
    assert reports == ["invalid frame length 11"]


def test_search_drops_bytes_without_frames() -> None:
    split, _ = framer(is_synchronized=False)
    for number in range(40):
        split.feed(piece(bytes(1024 * 1024), number))
    assert split.searched_bytes < 5 * 1024 * 1024
    assert [each.body for each in split.feed(piece(frame(MARK)))] == [MARK]


def test_rest_of_an_earlier_frame_is_skipped() -> None:
    split, _ = framer()
    split.skip(3)
    assert [each.body for each in split.feed(piece(b"end" + frame(b"x")))] == [b"x"]


def test_partial_frame_is_returned() -> None:
    split, _ = framer()
    split.feed(piece(frame(b"one") + b"\0\0", 7))
    assert split.partial_frame == PartialFrame(b"\0\0", 7)
    split.feed(piece(b"\0\3two", 8))
    assert split.partial_frame == PartialFrame(b"", None)


def test_many_invalid_lengths_are_handled() -> None:
    split, reports = framer()
    expected = MARK + b"!"
    found = split.feed(piece((frame(expected) + b"\xff\xff\xff\xff") * 5000))
    assert [each.body for each in found] == [expected] * 5000
    assert set(reports) == {"invalid frame length -1"}


class AlwaysUnknown(MarkedFrameFinder):
    """Returns UNKNOWN for every mark, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def check(self, buffer: bytearray, candidate: int) -> Verdict:
        assert candidate < len(buffer)
        self.calls += 1
        return Verdict.UNKNOWN


def test_candidates_that_stay_incomplete_are_not_checked_forever() -> None:
    finder = AlwaysUnknown()
    split = Framer(finder, is_synchronized=False, report=lambda _: None)
    size = 0
    for number in range(100):
        data = (b"\0\0\0\1" + MARK) * 2000
        size += len(data)
        assert split.feed(piece(data, number)) == []
    assert finder.calls < 4096 + size / 16 + 100
    assert split.searched_bytes <= 4 * 1024 * 1024
