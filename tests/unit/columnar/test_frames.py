"""Frames of segments that are in order, whatever they are spread over."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.columnar.arrays import view
from kafkalite.columnar.captured import Packets
from kafkalite.columnar.chunks import Chunk, ChunkFrames, Rooms
from kafkalite.columnar.found import Buffer
from kafkalite.columnar.lines import JUDGED, NEXT, Lines
from kafkalite.columnar.packets import RST, SYN, Segments

FIRST = 0xFFFFFFF0
"""Sequence numbers begin again behind 2³²."""

Piece = tuple[bytes, int, int]
"""What a segment carries, its sequence number and flags."""


def connection() -> Lines:
    lines = Lines()
    line = lines.add((bytes(12), bytes(12)), 0, 0, 0)
    line.mark(JUDGED)
    line.next_seqs[:] = FIRST
    return lines


def chunk_of(lines: Lines, pieces: list[Piece], side: int = 0) -> Chunk:
    """Put segments of one direction side by side, as a capture has them."""
    # Something else stands between them, as headers do.
    data = b"head" + b"head".join(piece for piece, _, _ in pieces)
    sizes = np.array([len(piece) for piece, _, _ in pieces], np.int64)
    count = len(pieces)
    numbers = np.arange(count)
    return Chunk(
        view(data),
        1000,
        Packets(at=numbers * 10, at_ns=numbers * 7),
        Segments(
            packet=numbers,
            seq=np.array([seq for _, seq, _ in pieces], np.int64) & 0xFFFFFFFF,
            flags=np.array([flags for _, _, flags in pieces], np.int64),
            start=np.cumsum(sizes + 4) - sizes,
            size=sizes,
            missing=np.zeros(count, np.int64),
        ),
        np.full(count, side, np.int64),
        lines,
    )


def found(chunk: Chunk, rooms: Rooms) -> tuple[list[tuple[bytes, int, int]], set[int]]:
    """Return frames, where they begin in the file and when they end; and what is out of order."""
    frames, buffer = ChunkFrames(chunk, rooms), Buffer(chunk.data)
    rows = frames.find(buffer)
    memory = buffer.whole().tobytes()
    columns = (rows.start.tolist(), rows.size.tolist(), rows.offset.tolist(), rows.at_ns.tolist())
    told = [
        (memory[start : start + size], offset, at_ns)
        for start, size, offset, at_ns in zip(*columns, strict=True)
    ]
    return told, frames.odd


def in_pieces(stream: bytes, cuts: list[int]) -> list[Piece]:
    bounds = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [(stream[begin:end], FIRST + begin, 0) for begin, end in itertools.pairwise(bounds)]


@given(
    st.lists(st.binary(max_size=12), max_size=12),
    st.lists(st.integers(0, 200), max_size=12),
    st.integers(0, 12),
    st.integers(0, 5),
)
def test_frames_are_found_however_they_are_spread(
    bodies: list[bytes], cuts: list[int], turn: int, lacking: int
) -> None:
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    stream = stream[: max(len(stream) - lacking, 0)]
    pieces = in_pieces(stream, cuts)
    lines, rooms = connection(), Rooms()
    told: list[bytes] = []
    for part in (pieces[:turn], pieces[turn:]):
        frames, odd = found(chunk_of(lines, part), rooms)
        told += [body for body, _, _ in frames]
        assert not odd
    whole, used = [], 0
    for body in bodies:
        if used + 4 + len(body) > len(stream):
            break
        used += 4 + len(body)
        whole.append(body)
    assert told == whole
    assert lines[0].rest(0).data == stream[used:]
    assert lines.sides[0, NEXT] == (FIRST + len(stream)) & 0xFFFFFFFF


def test_a_frame_begins_and_ends_in_packets_of_its_own() -> None:
    pieces = [(b"\0\0\0\1a\0\0", FIRST, 0), (b"\0\3x", FIRST + 7, 0), (b"yz", FIRST + 10, 0)]
    lines, rooms = connection(), Rooms()
    told, _ = found(chunk_of(lines, pieces[:2]), rooms)
    assert told == [(b"a", 1000, 0)]
    assert lines[0].rest(0) == (b"\0\0\0\3x", 1000, 0)
    told, _ = found(chunk_of(lines, pieces[2:]), rooms)
    # Times begin again with a chunk here, but nothing is read before what stands in front of it.
    assert told == [(b"xyz", 1000, 7)]
    assert lines.rests == {}


def test_what_can_be_no_length_is_for_the_exact_way_and_changes_nothing() -> None:
    lines, rooms = connection(), Rooms()
    pieces = [(b"\0\0\0\1a\xff", FIRST, 0), (b"\xff\xff\xffbcd", FIRST + 6, 0)]
    assert found(chunk_of(lines, pieces), rooms) == ([], {0})
    assert lines.sides[0, NEXT] == FIRST
    assert lines.rests == {}


def test_what_is_out_of_order_is_for_the_exact_way() -> None:
    good = b"\0\0\0\1a"
    later, opening = FIRST + 5, FIRST - 1
    for pieces in (
        [(good, FIRST + 1, 0)],
        [(good, FIRST, 0), (good, FIRST, 0)],
        [(good, FIRST, 0), (good, later + 1, 0)],
        [(good, FIRST, 0), (b"", later, SYN)],
        [(b"", opening, SYN)],
        [(good, FIRST, RST), (good, later, 0)],
    ):
        lines = connection()
        assert found(chunk_of(lines, pieces), Rooms()) == ([], {0})
        assert lines.sides[0, NEXT] == FIRST
