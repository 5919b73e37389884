"""Unit tests of finding frames in regular segments, however the frames are distributed."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.columnar.arrays import byte_array
from kafkalite.lab.columnar.files.packet_index import Packets
from kafkalite.lab.columnar.frames.chunk_frames import Chunk, ChunkFrames, ChunkMemory
from kafkalite.lab.columnar.frames.frame_index import FrameBuffer
from kafkalite.lab.columnar.segments.connection_state import NEXT_SEQ, RECOGNIZED, ConnectionStates
from kafkalite.lab.columnar.segments.packets import RST, SYN, Segments

FIRST = 0xFFFFFFF0
"""Sequence numbers wrap around at 2³²."""

Piece = tuple[bytes, int, int]
"""Payload, sequence number and flags of a segment."""


def connection() -> ConnectionStates:
    states = ConnectionStates()
    state = states.add((bytes(12), bytes(12)), 0, 0, 0)
    state.mark(RECOGNIZED)
    state.next_seqs[:] = FIRST
    return states


def chunk_of(states: ConnectionStates, pieces: list[Piece], side: int = 0) -> Chunk:
    """Return a chunk with segments of one direction."""
    # Other bytes are between the payloads, as headers are in a capture.
    data = b"head" + b"head".join(piece for piece, _, _ in pieces)
    sizes = np.array([len(piece) for piece, _, _ in pieces], np.int64)
    count = len(pieces)
    numbers = np.arange(count)
    return Chunk(
        byte_array(data),
        1000,
        Packets(block_start=numbers * 10, at_ns=numbers * 7),
        Segments(
            packet=numbers,
            seq=np.array([seq for _, seq, _ in pieces], np.int64) & 0xFFFFFFFF,
            flags=np.array([flags for _, _, flags in pieces], np.int64),
            start=np.cumsum(sizes + 4) - sizes,
            size=sizes,
            missing_bytes=np.zeros(count, np.int64),
        ),
        np.full(count, side, np.int64),
        states,
    )


def find_frames_of(
    chunk: Chunk, memory: ChunkMemory
) -> tuple[list[tuple[bytes, int, int]], set[int]]:
    """Return frames with file offset and end time, and the irregular connections."""
    frames, buffer = ChunkFrames(chunk, memory), FrameBuffer(chunk.data)
    rows = frames.find(buffer)
    data = buffer.all_bytes().tobytes()
    columns = (rows.start.tolist(), rows.size.tolist(), rows.offset.tolist(), rows.at_ns.tolist())
    frame_list = [
        (data[start : start + size], offset, at_ns)
        for start, size, offset, at_ns in zip(*columns, strict=True)
    ]
    return frame_list, frames.irregular


def in_pieces(stream: bytes, cuts: list[int]) -> list[Piece]:
    bounds = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [(stream[begin:end], FIRST + begin, 0) for begin, end in itertools.pairwise(bounds)]


@given(
    st.lists(st.binary(max_size=12), max_size=12),
    st.lists(st.integers(0, 200), max_size=12),
    st.integers(0, 12),
    st.integers(0, 5),
)
def test_frames_are_found_for_any_distribution_over_segments(
    bodies: list[bytes], cuts: list[int], split_at: int, missing: int
) -> None:
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    stream = stream[: max(len(stream) - missing, 0)]
    pieces = in_pieces(stream, cuts)
    states, memory = connection(), ChunkMemory()
    frame_list: list[bytes] = []
    for part in (pieces[:split_at], pieces[split_at:]):
        frames, irregular = find_frames_of(chunk_of(states, part), memory)
        frame_list += [body for body, _, _ in frames]
        assert not irregular
    whole, used = [], 0
    for body in bodies:
        if used + 4 + len(body) > len(stream):
            break
        used += 4 + len(body)
        whole.append(body)
    assert frame_list == whole
    assert states[0].partial_frame(0).data == stream[used:]
    assert states.direction_rows[0, NEXT_SEQ] == (FIRST + len(stream)) & 0xFFFFFFFF


def test_frame_has_offset_of_first_and_time_of_last_packet() -> None:
    pieces = [(b"\0\0\0\1a\0\0", FIRST, 0), (b"\0\3x", FIRST + 7, 0), (b"yz", FIRST + 10, 0)]
    states, memory = connection(), ChunkMemory()
    frame_list, _ = find_frames_of(chunk_of(states, pieces[:2]), memory)
    assert frame_list == [(b"a", 1000, 0)]
    assert states[0].partial_frame(0) == (b"\0\0\0\3x", 1000, 0)
    frame_list, _ = find_frames_of(chunk_of(states, pieces[2:]), memory)
    # Times restart with each chunk here, but bytes are not readable before earlier bytes.
    assert frame_list == [(b"xyz", 1000, 7)]
    assert states.partial_frames == {}


def test_invalid_frame_length_makes_the_connection_irregular() -> None:
    states, memory = connection(), ChunkMemory()
    pieces = [(b"\0\0\0\1a\xff", FIRST, 0), (b"\xff\xff\xffbcd", FIRST + 6, 0)]
    assert find_frames_of(chunk_of(states, pieces), memory) == ([], {0})
    assert states.direction_rows[0, NEXT_SEQ] == FIRST
    assert states.partial_frames == {}


def test_segments_out_of_order_make_the_connection_irregular() -> None:
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
        states = connection()
        assert find_frames_of(chunk_of(states, pieces), ChunkMemory()) == ([], {0})
        assert states.direction_rows[0, NEXT_SEQ] == FIRST
