"""Cutting: the same packets however the bytes came in, and bounded memory."""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture import cutting
from kafkalite.capture.cutting import FEW_FRAMES, HEAD_BYTES, Cutter, Piece, Plain
from kafkalite.capture.notes import PacketNote
from kafkalite.capture.synthetic import SEGMENT_BYTES
from tests.unit.frames import framed

if TYPE_CHECKING:
    import pytest

    from kafkalite.capture.cutting import Treatment
    from kafkalite.capture.pcapng import Buffer


def treatment(frame: bytes) -> Treatment:
    """Let the first byte behind the length say what is done."""
    kinds: dict[int, Treatment] = {
        ord("b"): Plain.BLANK,
        ord("h"): Plain.HIDE,
        ord("r"): lambda whole: (whole[:4] + whole[:3:-1], PacketNote(snapped=len(whole))),
    }
    return kinds.get(frame[4] if len(frame) > 4 else 0, Plain.KEEP)


def no_run(_: Buffer, position: int, __: list[int]) -> int:
    return position


def run(data: Buffer, position: int, ends: list[int]) -> int:
    """Go through small frames that begin with a `k`."""
    while len(data) - position >= 5:
        size = 4 + int.from_bytes(data[position : position + 4])
        if size > 100 or position + size > len(data) or data[position + 4] != ord("k"):
            break
        position += size
        ends.append(position)
    return position


def fed(slices: list[bytes], cutter: Cutter | None = None) -> list[Piece]:
    cutter = cutter or Cutter(no_run, treatment, HEAD_BYTES)
    out: list[Piece] = []
    for each in slices:
        cutter.feed(each, out)
    cutter.finish(out)
    return out


def sliced(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


FRAMES = st.lists(
    st.builds(
        lambda kind, size: framed((kind + bytes(range(1, 200)) * (size // 199 + 1))[:size]),
        st.sampled_from([b"k", b"b", b"h", b"r"]),
        st.integers(0, 300)
        | st.integers(SEGMENT_BYTES - 10, SEGMENT_BYTES + 10)
        | st.just(3 * SEGMENT_BYTES),
    ),
    min_size=1,
    max_size=5,
)
PLACES = st.lists(st.integers(0, 10**6), max_size=8)


@given(FRAMES, PLACES)
def test_any_slicing_gives_the_same_packets(frames: list[bytes], places: list[int]) -> None:
    data = b"".join(frames)
    assert fed(sliced(data, places)) == fed([data])


@given(FRAMES, PLACES)
def test_a_frame_begins_with_a_packet(frames: list[bytes], places: list[int]) -> None:
    pieces = [data for data, _ in fed(sliced(b"".join(frames), places))]
    at = 0
    for frame in frames:
        size = 0
        while size < len(frame):
            size += len(pieces[at])
            at += 1
        assert size == len(frame)
    assert at == len(pieces)
    assert max(map(len, pieces)) <= SEGMENT_BYTES


@given(FRAMES, st.integers(0, 10**6), PLACES)
def test_a_stream_may_end_anywhere(frames: list[bytes], end: int, places: list[int]) -> None:
    data = b"".join(frames)
    data = data[: end % (len(data) + 1)]
    pieces = fed(sliced(data, places))
    assert sum(len(piece) for piece, _ in pieces) == len(data)
    assert fed([data]) == pieces if data else pieces == []


def test_blanked_frames_keep_their_length_and_their_head() -> None:
    long = framed(b"b" + b"x" * (2 * SEGMENT_BYTES))
    pieces = fed([long])
    joined = b"".join(data for data, _ in pieces)
    assert joined == long[:HEAD_BYTES] + bytes(len(long) - HEAD_BYTES)
    assert sum(note.blanked or 0 for _, note in pieces if note) == len(long) - HEAD_BYTES
    assert fed([framed(b"h" + b"x" * 50)]) == [
        (framed(bytes(51)), PacketNote(blanked=51)),
    ]


def test_part_of_a_frame_that_had_to_be_seen_whole_is_blanked() -> None:
    cut_short = framed(b"r" + b"secret" * 5)[:-3]
    ((data, note),) = fed([cut_short])
    assert data == cut_short[:HEAD_BYTES] + bytes(len(cut_short) - HEAD_BYTES)
    assert note == PacketNote(blanked=len(cut_short) - HEAD_BYTES)


def test_too_large_to_be_seen_whole_is_blanked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "MAX_WHOLE_BYTES", 2 * SEGMENT_BYTES)
    large = framed(b"r" + b"x" * (2 * SEGMENT_BYTES))
    pieces = fed([large])
    assert b"".join(data for data, _ in pieces) == large[:HEAD_BYTES] + bytes(
        len(large) - HEAD_BYTES
    )


def test_what_is_no_frame_goes_out_as_it_came() -> None:
    for hostile in (pack(">i", -1) + b"abc", pack(">I", 0x7FFFFFFF) + b"TLS?"):
        data = framed(b"k") + hostile
        assert fed([data, b"more"]) == [
            (framed(b"k"), None),
            (hostile, None),
            (b"more", None),
        ]


def test_little_is_held_of_a_large_frame() -> None:
    cutter = Cutter(no_run, treatment, HEAD_BYTES)
    out: list[Piece] = []
    cutter.feed(pack(">i", 50 * SEGMENT_BYTES), out)
    for _ in range(500):
        cutter.feed(bytes(SEGMENT_BYTES // 10), out)
        assert len(cutter._held) <= SEGMENT_BYTES
    assert cutter.inside == 50 * SEGMENT_BYTES + 4 - sum(len(data) for data, _ in out)


def test_few_frames_have_packets_of_their_own_and_many_share() -> None:
    one = framed(b"k" * 20)
    few = fed([one * FEW_FRAMES], Cutter(run, treatment, HEAD_BYTES))
    assert few == [(one, None)] * FEW_FRAMES
    many = fed([one * 10_000], Cutter(run, treatment, HEAD_BYTES))
    assert len(many) == -(-10_000 // (SEGMENT_BYTES // len(one)))
    assert all(len(data) % len(one) == 0 for data, _ in many)
    assert b"".join(data for data, _ in many) == one * 10_000


@given(FRAMES, PLACES)
def test_runs_change_no_byte(frames: list[bytes], places: list[int]) -> None:
    data = b"".join(frames * 3)
    with_runs = fed(sliced(data, places), Cutter(run, treatment, HEAD_BYTES))
    assert b"".join(each for each, _ in with_runs) == b"".join(each for each, _ in fed([data]))
