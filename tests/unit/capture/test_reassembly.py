"""Segments → bytes in order; holes waited for, and given up."""

from __future__ import annotations

from kafkalite.capture.blocks import Interface
from kafkalite.capture.packets import Segment
from kafkalite.capture.reassembly import (
    MAX_WAIT_NS,
    MAX_WAITING_BYTES,
    Hole,
    Piece,
    Stream,
)

WIRE = Interface(101)
MS = 1_000_000


def segment(seq: int, payload: bytes, at_ns: int = 0, missing: int = 0) -> Segment:
    return Segment(
        at_ns, b"", seq & 0xFFFFFFFF, 0, 0, payload, missing, "f", at_ns, WIRE, None
    )  # fmt: skip


def pushed(stream: Stream, *segments: Segment) -> list[bytes | int]:
    """Return what segments made available: bytes, and holes by their size."""
    run: list[Piece | Hole] = []
    for each in segments:
        run += stream.push(each, each.seq)
    return told(run)


def told(run: list[Piece | Hole] | tuple[Piece | Hole, ...]) -> list[bytes | int]:
    return [each.size if isinstance(each, Hole) else each.data for each in run]


def test_what_is_in_order_goes_through_even_where_numbers_wrap() -> None:
    stream = Stream()
    stream.begin(0xFFFFFFFE)
    assert pushed(stream, segment(-2, b"abcd"), segment(2, b"ef")) == [b"abcd", b"ef"]


def test_what_overtook_waits_and_is_readable_once_the_hole_is_filled() -> None:
    stream = Stream()
    stream.begin(0)
    assert pushed(stream, segment(3, b"def", at_ns=5)) == []
    assert stream.since_ns == 5
    run = stream.push(segment(0, b"abc", at_ns=9), 0)
    assert told(run) == [b"abc", b"def"]
    assert [each.at_ns for each in run] == [9, 9]
    assert stream.since_ns is None


def test_repeated_and_overlapping_bytes_come_once() -> None:
    stream = Stream()
    stream.begin(0)
    assert pushed(
        stream,
        segment(0, b"abc"),
        segment(0, b"abc"),
        segment(1, b"bcde"),
        segment(8, b"ij"),
        segment(7, b"hijk"),
        segment(5, b"fg"),
    ) == [b"abc", b"de", b"fg", b"hijk"]


def test_a_hole_is_waited_for_until_it_is_acknowledged_and_a_little_longer() -> None:
    stream = Stream()
    stream.begin(0)
    pushed(stream, segment(3, b"def", at_ns=0))
    assert not stream.overdue(1000 * MS)
    stream.acknowledged = 3
    assert not stream.overdue(100 * MS)
    assert stream.overdue(200 * MS)
    assert told(stream.give_up(200 * MS)) == [3, b"def"]
    assert not stream.overdue(900 * MS)


def test_a_hole_is_not_waited_for_for_ever() -> None:
    stream = Stream()
    stream.begin(0)
    pushed(stream, segment(3, b"def", at_ns=0))
    assert not stream.overdue(MAX_WAIT_NS - 1)
    assert stream.overdue(MAX_WAIT_NS)


def test_only_so_much_waits_behind_a_hole() -> None:
    stream = Stream()
    stream.begin(0)
    pushed(stream, segment(1, bytes(MAX_WAITING_BYTES)))
    assert not stream.overdue(0)
    pushed(stream, segment(1 + MAX_WAITING_BYTES, b"x"))
    assert stream.overdue(0)


def test_what_a_packet_did_not_keep_is_a_hole_at_once() -> None:
    stream = Stream()
    stream.begin(0)
    assert pushed(stream, segment(0, b"ab", missing=4), segment(6, b"gh")) == [b"ab", 4, b"gh"]


def test_the_end_tells_what_is_missing_before_it() -> None:
    stream = Stream()
    stream.begin(0)
    pushed(stream, segment(0, b"ab"))
    stream.close(9)
    assert not stream.is_at_end
    assert told(stream.finish(1)) == [7]
    assert stream.is_at_end


def test_the_last_acknowledgement_tells_what_is_missing_where_no_end_was_seen() -> None:
    stream = Stream()
    stream.begin(0)
    pushed(stream, segment(0, b"ab"))
    stream.acknowledged = 9
    assert told(stream.finish(1)) == [7]
    whole = Stream()
    whole.begin(0)
    pushed(whole, segment(0, b"ab"))
    whole.acknowledged = 3  # one beyond: the mark of an end
    assert told(whole.finish(1)) == []


def test_a_stray_segment_from_far_away_does_not_derail() -> None:
    stream = Stream()
    stream.begin(0)
    far = 0x40000000
    assert pushed(stream, segment(-far, b"old"), segment(0, b"abc")) == [b"abc"]


def test_where_all_segments_lie_far_back_the_stream_has_begun_anew() -> None:
    stream = Stream()
    stream.begin(0)
    far = 0x40000000
    found = pushed(stream, *(segment(-far + 2 * each, b"ab") for each in range(5)))
    assert found == [b"ab", b"ab", b"ab"]


def test_times_go_on_but_a_clock_that_was_set_back_is_believed() -> None:
    stream = Stream()
    stream.begin(0)
    late = 100 * MAX_WAIT_NS
    run = [
        *stream.push(segment(0, b"a", at_ns=late), 0),
        *stream.push(segment(1, b"b", at_ns=late - 1), 1),
        *stream.push(segment(2, b"c", at_ns=5), 2),
    ]
    assert [each.at_ns for each in run] == [late, late, 5]
