"""Bytes → frames, however they are cut; and back into step after a hole."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.framing import Framer, Unfinished, Verdict, Whole
from kafkalite.capture.reassembly import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = b"FRAME"


class Marked:
    """Recognises frames that begin with a mark."""

    look_back = 3 + len(MARK)

    def places(self, buffer: bytearray, start: int) -> Iterator[int]:
        found = buffer.find(MARK, start + 4)
        while found >= 0:
            yield found - 4
            found = buffer.find(MARK, found + 1)

    def judge(self, buffer: bytearray, place: int) -> Verdict:
        size = int.from_bytes(buffer[place : place + 4])
        if size > 100:
            return Verdict.NO
        return Verdict.YES if place + 4 + size <= len(buffer) else Verdict.UNKNOWN


def framer(*, is_in_step: bool = True, maximum: int = 1000) -> tuple[Framer, list[str]]:
    said: list[str] = []
    made = Framer(Marked(), is_in_step=is_in_step, maximum=maximum, report=said.append)
    return made, said


def piece(data: bytes, number: int = 0) -> Piece:
    return Piece(data, number, "f", number)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(
    bodies=st.lists(st.binary(max_size=40), max_size=12),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
)
def test_frames_are_whole_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame, bodies))
    starts = [sum(len(frame(body)) for body in bodies[:nth]) for nth in range(len(bodies))]
    split, said = framer()
    found: list[Whole] = []
    ends: list[int] = []
    start = 0
    while start < len(data):
        size = cuts[len(ends) % len(cuts)]
        found += split.feed(piece(data[start : start + size], len(ends)))
        start += size
        ends.append(start)
    assert [each.body for each in found] == bodies
    assert said == []

    def piece_of(position: int) -> int:
        return next(number for number, end in enumerate(ends) if position < end)

    for each, body, begin in zip(found, bodies, starts, strict=True):
        assert each.offset == piece_of(begin)
        assert each.at_ns == piece_of(begin + 3 + len(body))


def test_a_hole_within_a_frame_costs_that_frame_alone() -> None:
    split, _ = framer()
    data = frame(b"one") + frame(b"twotwotwo") + frame(b"three")
    assert [each.body for each in split.feed(piece(data[:13]))] == [b"one"]
    split.hole(4)
    assert split.is_in_step
    assert split.unfinished is None
    assert [each.body for each in split.feed(piece(data[17:]))] == [b"three"]


def test_a_hole_within_a_frame_and_another_one_is_skipped_too() -> None:
    split, _ = framer()
    split.feed(piece(frame(bytes(20))[:8]))
    split.hole(3)
    assert split.feed(piece(bytes(5))) == []
    split.hole(6)
    assert [each.body for each in split.feed(piece(bytes(2) + frame(b"x")))] == [b"x"]


def test_after_a_hole_across_frames_the_next_one_is_looked_for() -> None:
    split, _ = framer()
    split.feed(piece(frame(b"one")[:5]))
    split.hole(10)
    assert not split.is_in_step
    rest = b"junk" + frame(MARK + b"two") + frame(b"three")
    assert split.feed(piece(rest[:9], 1)) == []
    found = split.feed(piece(rest[9:], 2))
    assert [(each.body, each.at_ns, each.offset) for each in found] == [
        (MARK + b"two", 2, 1),
        (b"three", 2, 2),
    ]
    assert split.is_in_step


def test_a_length_that_cannot_be_is_told_and_what_follows_is_looked_for() -> None:
    split, said = framer()
    data = frame(b"one") + b"\xff\xff\xff\xff" + frame(MARK + b"two")
    assert [each.body for each in split.feed(piece(data))] == [b"one", MARK + b"two"]
    assert said == ["a frame of -1 bytes"]
    split, said = framer(maximum=10)
    assert split.feed(piece(frame(bytes(11)))) == []
    assert said == ["a frame of 11 bytes"]


def test_a_search_does_not_keep_what_no_frame_begins_in() -> None:
    split, _ = framer(is_in_step=False)
    for number in range(40):
        split.feed(piece(bytes(1024 * 1024), number))
    assert split.searched_bytes < 5 * 1024 * 1024
    assert [each.body for each in split.feed(piece(frame(MARK)))] == [MARK]


def test_a_frame_that_began_elsewhere_is_passed_over() -> None:
    split, _ = framer()
    split.skip(3)
    assert [each.body for each in split.feed(piece(b"end" + frame(b"x")))] == [b"x"]


def test_what_is_unfinished_can_be_carried_on_elsewhere() -> None:
    split, _ = framer()
    split.feed(piece(frame(b"one") + b"\0\0", 7))
    assert split.unfinished == Unfinished(b"\0\0", 7)
    split.feed(piece(b"\0\3two", 8))
    assert split.unfinished == Unfinished(b"", None)


def test_lengths_that_make_no_sense_may_come_as_often_as_they_like() -> None:
    split, said = framer()
    wanted = MARK + b"!"
    found = split.feed(piece((frame(wanted) + b"\xff\xff\xff\xff") * 5000))
    assert [each.body for each in found] == [wanted] * 5000
    assert set(said) == {"a frame of -1 bytes"}


class Credulous(Marked):
    """Takes every mark for one whose frame is yet to come, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def judge(self, buffer: bytearray, place: int) -> Verdict:
        assert place < len(buffer)
        self.asked += 1
        return Verdict.UNKNOWN


def test_frames_that_never_become_whole_are_not_looked_at_for_ever() -> None:
    finder = Credulous()
    split = Framer(finder, is_in_step=False, report=lambda _: None)
    size = 0
    for number in range(100):
        data = (b"\0\0\0\1" + MARK) * 2000
        size += len(data)
        assert split.feed(piece(data, number)) == []
    assert finder.asked < 4096 + size / 16 + 100
    assert split.searched_bytes <= 4 * 1024 * 1024
