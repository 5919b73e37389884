"""Frames on a line of pieces, cut in runs and one by one."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.columnar.frames import Cutter, Pieces, place


def line_of(stream: bytes, cuts: list[int]) -> Pieces:
    bounds = [0, *sorted({cut % (len(stream) + 1) for cut in cuts}), len(stream)]
    # Something else stands between the pieces, as headers do between those of a capture.
    data, start, size = bytearray(), [], []
    for begin, end in itertools.pairwise(bounds):
        if end > begin:
            data += b"head"
            start.append(len(data))
            size.append(end - begin)
            data += stream[begin:end]
    array = np.frombuffer(bytes(data) or b"\0", np.uint8)
    return Pieces(array, np.array(start, np.int64), np.array(size, np.int64))


@given(
    st.lists(st.binary(max_size=12), max_size=12),
    st.lists(st.integers(0, 200), max_size=12),
    st.integers(0, 5),
)
def test_frames_are_found_however_they_are_spread(
    bodies: list[bytes], cuts: list[int], lacking: int
) -> None:
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    pieces = line_of(stream[: max(len(stream) - lacking, 0)], cuts)
    total = pieces.total
    cut, counts, rests = Cutter(pieces).cut(np.array([0]), np.array([total]))
    placed = place(pieces, cut)
    memory = np.concatenate([pieces.data, placed.extra]).tobytes()
    found = [
        memory[start : start + size]
        for start, size in zip(placed.start.tolist(), placed.size.tolist(), strict=True)
    ]
    whole = []
    used = 0
    for body in bodies:
        used += 4 + len(body)
        if used <= total:
            whole.append(body)
    assert found == whole
    assert counts.tolist() == [len(whole)]
    left = total - sum(4 + len(body) for body in whole)
    assert [total - rest.line for rest in rests] == ([left] if left else [])


def test_what_can_be_no_length_is_told() -> None:
    pieces = line_of(b"\x00\x00\x00\x01a\xff\xff\xff\xffbcd", [5])
    _, counts, rests = Cutter(pieces).cut(np.array([0]), np.array([pieces.total]))
    assert counts.tolist() == [1]
    assert [(rest.line, rest.is_broken) for rest in rests] == [(5, True)]
