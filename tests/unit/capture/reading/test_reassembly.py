"""Unit tests of reassembly: order of bytes, and gaps."""

from __future__ import annotations

from kafkalite.capture.formats.capture_files import Interface
from kafkalite.capture.reading.packets import Segment
from kafkalite.capture.reading.reassembly import (
    MAX_WAIT_NS,
    MAX_WAITING_BYTES,
    MissingBytes,
    Piece,
    Stream,
)

WIRE = Interface(101)
MS = 1_000_000


def segment(seq: int, payload: bytes, at_ns: int = 0, missing: int = 0) -> Segment:
    return Segment(
        at_ns, b"", seq & 0xFFFFFFFF, 0, 0, payload, missing, "f", at_ns, WIRE, None
    )  # fmt: skip


def push(stream: Stream, *segments: Segment) -> list[bytes | int]:
    """Return the available bytes, and gaps as their size."""
    items: list[Piece | MissingBytes] = []
    for each in segments:
        items += stream.push(each, each.seq)
    return contents(items)


def contents(
    items: list[Piece | MissingBytes] | tuple[Piece | MissingBytes, ...],
) -> list[bytes | int]:
    return [each.size if isinstance(each, MissingBytes) else each.data for each in items]


def test_sequence_numbers_wrap_around() -> None:
    stream = Stream()
    stream.begin(0xFFFFFFFE)
    assert push(stream, segment(-2, b"abcd"), segment(2, b"ef")) == [b"abcd", b"ef"]


def test_reordered_bytes_are_readable_when_the_gap_is_filled() -> None:
    stream = Stream()
    stream.begin(0)
    assert push(stream, segment(3, b"def", at_ns=5)) == []
    assert stream.gap_since_ns == 5
    items = stream.push(segment(0, b"abc", at_ns=9), 0)
    assert contents(items) == [b"abc", b"def"]
    assert [each.at_ns for each in items] == [9, 9]
    assert stream.gap_since_ns is None


def test_repeated_and_overlapping_bytes_are_returned_once() -> None:
    stream = Stream()
    stream.begin(0)
    assert push(
        stream,
        segment(0, b"abc"),
        segment(0, b"abc"),
        segment(1, b"bcde"),
        segment(8, b"ij"),
        segment(7, b"hijk"),
        segment(5, b"fg"),
    ) == [b"abc", b"de", b"fg", b"hijk"]


def test_acknowledged_gap_is_overdue_after_a_short_time() -> None:
    stream = Stream()
    stream.begin(0)
    push(stream, segment(3, b"def", at_ns=0))
    assert not stream.is_overdue(1000 * MS)
    stream.acknowledged = 3
    assert not stream.is_overdue(100 * MS)
    assert stream.is_overdue(200 * MS)
    assert contents(stream.skip_gap(200 * MS)) == [3, b"def"]
    assert not stream.is_overdue(900 * MS)


def test_any_gap_is_overdue_after_the_maximum_wait() -> None:
    stream = Stream()
    stream.begin(0)
    push(stream, segment(3, b"def", at_ns=0))
    assert not stream.is_overdue(MAX_WAIT_NS - 1)
    assert stream.is_overdue(MAX_WAIT_NS)


def test_gap_is_overdue_when_too_many_bytes_wait() -> None:
    stream = Stream()
    stream.begin(0)
    push(stream, segment(1, bytes(MAX_WAITING_BYTES)))
    assert not stream.is_overdue(0)
    push(stream, segment(1 + MAX_WAITING_BYTES, b"x"))
    assert stream.is_overdue(0)


def test_truncated_packet_is_a_gap_at_once() -> None:
    stream = Stream()
    stream.begin(0)
    assert push(stream, segment(0, b"ab", missing=4), segment(6, b"gh")) == [b"ab", 4, b"gh"]


def test_missing_bytes_before_fin_are_a_gap() -> None:
    stream = Stream()
    stream.begin(0)
    push(stream, segment(0, b"ab"))
    stream.close(9)
    assert not stream.is_at_end
    assert contents(stream.finish(1)) == [7]
    assert stream.is_at_end


def test_acknowledged_bytes_at_the_end_are_a_gap() -> None:
    stream = Stream()
    stream.begin(0)
    push(stream, segment(0, b"ab"))
    stream.acknowledged = 9
    assert contents(stream.finish(1)) == [7]
    whole = Stream()
    whole.begin(0)
    push(whole, segment(0, b"ab"))
    whole.acknowledged = 3  # one more byte: a FIN
    assert contents(whole.finish(1)) == []


def test_single_segment_far_back_is_ignored() -> None:
    stream = Stream()
    stream.begin(0)
    far = 0x40000000
    assert push(stream, segment(-far, b"old"), segment(0, b"abc")) == [b"abc"]


def test_repeated_segments_far_back_restart_the_stream() -> None:
    stream = Stream()
    stream.begin(0)
    far = 0x40000000
    found = push(stream, *(segment(-far + 2 * each, b"ab") for each in range(5)))
    assert found == [b"ab", b"ab", b"ab"]


def test_times_do_not_decrease_unless_the_clock_was_set_back() -> None:
    stream = Stream()
    stream.begin(0)
    late = 100 * MAX_WAIT_NS
    items = [
        *stream.push(segment(0, b"a", at_ns=late), 0),
        *stream.push(segment(1, b"b", at_ns=late - 1), 1),
        *stream.push(segment(2, b"c", at_ns=5), 2),
    ]
    assert [each.at_ns for each in items] == [late, late, 5]
