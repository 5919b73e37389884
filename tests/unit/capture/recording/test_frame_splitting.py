"""Unit tests of splitting: packets do not depend on how bytes arrive, and memory is bounded."""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.formats.tcp_packets import SEGMENT_BYTES
from kafkalite.capture.recording import frame_splitting
from kafkalite.capture.recording.frame_splitting import (
    MAX_SEPARATE_FRAMES,
    TREATMENT_PREFIX_BYTES,
    FrameSplitter,
    PacketPayload,
    SimpleTreatment,
)
from tests.unit.frames import framed

if TYPE_CHECKING:
    import pytest

    from kafkalite.capture.formats.pcapng import Buffer
    from kafkalite.capture.recording.frame_splitting import Treatment


def treatment(frame: bytes) -> Treatment:
    """Choose the treatment by the first byte after the length."""
    kinds: dict[int, Treatment] = {
        ord("b"): SimpleTreatment.BLANK,
        ord("h"): SimpleTreatment.HIDE,
        ord("r"): lambda whole: (whole[:4] + whole[:3:-1], PacketNote(snapped=len(whole))),
    }
    return kinds.get(frame[4] if len(frame) > 4 else 0, SimpleTreatment.KEEP)


def skip_nothing(_: Buffer, position: int, __: list[int]) -> int:
    return position


def skip_small_unchanged(data: Buffer, position: int, ends: list[int]) -> int:
    """Pass over small frames that begin with a `k`."""
    while len(data) - position >= 5:
        size = 4 + int.from_bytes(data[position : position + 4])
        if size > 100 or position + size > len(data) or data[position + 4] != ord("k"):
            break
        position += size
        ends.append(position)
    return position


def split(slices: list[bytes], splitter: FrameSplitter | None = None) -> list[PacketPayload]:
    splitter = splitter or FrameSplitter(skip_nothing, treatment, TREATMENT_PREFIX_BYTES)
    out: list[PacketPayload] = []
    for each in slices:
        splitter.feed(each, out)
    splitter.finish(out)
    return out


def slice_at(data: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in positions), len(data)]
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
POSITIONS = st.lists(st.integers(0, 10**6), max_size=8)


@given(FRAMES, POSITIONS)
def test_any_slicing_gives_the_same_packets(frames: list[bytes], positions: list[int]) -> None:
    data = b"".join(frames)
    assert split(slice_at(data, positions)) == split([data])


@given(FRAMES, POSITIONS)
def test_each_frame_begins_with_a_packet(frames: list[bytes], positions: list[int]) -> None:
    pieces = [data for data, _ in split(slice_at(b"".join(frames), positions))]
    at = 0
    for frame in frames:
        size = 0
        while size < len(frame):
            size += len(pieces[at])
            at += 1
        assert size == len(frame)
    assert at == len(pieces)
    assert max(map(len, pieces)) <= SEGMENT_BYTES


@given(FRAMES, st.integers(0, 10**6), POSITIONS)
def test_stream_can_end_anywhere(frames: list[bytes], end: int, positions: list[int]) -> None:
    data = b"".join(frames)
    data = data[: end % (len(data) + 1)]
    pieces = split(slice_at(data, positions))
    assert sum(len(piece) for piece, _ in pieces) == len(data)
    assert split([data]) == pieces if data else pieces == []


def test_blanked_frames_have_the_same_length_and_head() -> None:
    long = framed(b"b" + b"x" * (2 * SEGMENT_BYTES))
    pieces = split([long])
    joined = b"".join(data for data, _ in pieces)
    assert joined == long[:TREATMENT_PREFIX_BYTES] + bytes(len(long) - TREATMENT_PREFIX_BYTES)
    assert (
        sum(note.blanked or 0 for _, note in pieces if note) == len(long) - TREATMENT_PREFIX_BYTES
    )
    assert split([framed(b"h" + b"x" * 50)]) == [
        (framed(bytes(51)), PacketNote(blanked=51)),
    ]


def test_incomplete_frame_with_a_treatment_is_blanked() -> None:
    incomplete = framed(b"r" + b"secret" * 5)[:-3]
    ((data, note),) = split([incomplete])
    assert data == incomplete[:TREATMENT_PREFIX_BYTES] + bytes(
        len(incomplete) - TREATMENT_PREFIX_BYTES
    )
    assert note == PacketNote(blanked=len(incomplete) - TREATMENT_PREFIX_BYTES)


def test_frame_too_large_for_its_treatment_is_blanked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_splitting, "MAX_BUFFERED_FRAME_BYTES", 2 * SEGMENT_BYTES)
    large = framed(b"r" + b"x" * (2 * SEGMENT_BYTES))
    pieces = split([large])
    assert b"".join(data for data, _ in pieces) == large[:TREATMENT_PREFIX_BYTES] + bytes(
        len(large) - TREATMENT_PREFIX_BYTES
    )


def test_bytes_that_are_not_frames_are_unchanged() -> None:
    for hostile in (pack(">i", -1) + b"abc", pack(">I", 0x7FFFFFFF) + b"TLS?"):
        data = framed(b"k") + hostile
        assert split([data, b"more"]) == [
            (framed(b"k"), None),
            (hostile, None),
            (b"more", None),
        ]


def test_large_frame_is_not_buffered() -> None:
    splitter = FrameSplitter(skip_nothing, treatment, TREATMENT_PREFIX_BYTES)
    out: list[PacketPayload] = []
    splitter.feed(pack(">i", 50 * SEGMENT_BYTES), out)
    for _ in range(500):
        splitter.feed(bytes(SEGMENT_BYTES // 10), out)
        assert len(splitter._buffered) <= SEGMENT_BYTES
    assert splitter.remaining_frame_bytes == 50 * SEGMENT_BYTES + 4 - sum(
        len(data) for data, _ in out
    )


def test_few_frames_have_their_own_packets_and_many_share() -> None:
    one = framed(b"k" * 20)
    few = split(
        [one * MAX_SEPARATE_FRAMES],
        FrameSplitter(skip_small_unchanged, treatment, TREATMENT_PREFIX_BYTES),
    )
    assert few == [(one, None)] * MAX_SEPARATE_FRAMES
    many = split(
        [one * 10_000], FrameSplitter(skip_small_unchanged, treatment, TREATMENT_PREFIX_BYTES)
    )
    assert len(many) == -(-10_000 // (SEGMENT_BYTES // len(one)))
    assert all(len(data) % len(one) == 0 for data, _ in many)
    assert b"".join(data for data, _ in many) == one * 10_000


@given(FRAMES, POSITIONS)
def test_fast_path_changes_no_byte(frames: list[bytes], positions: list[int]) -> None:
    data = b"".join(frames * 3)
    with_fast_path = split(
        slice_at(data, positions),
        FrameSplitter(skip_small_unchanged, treatment, TREATMENT_PREFIX_BYTES),
    )
    assert b"".join(each for each, _ in with_fast_path) == b"".join(
        each for each, _ in split([data])
    )
