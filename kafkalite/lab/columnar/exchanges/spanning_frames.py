"""Assembly of frames that begin in one file and end in another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.reading.framing import LENGTH_BYTES, MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEQ_MASK: Final = 0xFFFFFFFF
_END_COLUMNS: Final = ("request_end", "response_end")

Row = dict[str, Any]
ProblemRows = list[tuple[str, str, int | None, str | None, str, int]]
"""Rows of the table of problems."""


@dataclass(slots=True)
class DirectionState:
    """One direction of a connection, across files."""

    end: int | None = None
    """TCP sequence number of the next byte; None if unknown."""
    partial: bytes = b""
    frame_origin: Row = field(default_factory=dict)
    """The row of the fragment in which the partial frame begins."""


DirectionStates = dict[tuple[int, int], DirectionState]


def direction_states(connections: Sequence[Row], fragments: Sequence[Row]) -> DirectionStates:
    """Return (connection, direction) → state, from the pending rows of earlier files."""
    states = {
        (row["connection"], direction): DirectionState(row[_END_COLUMNS[direction]])
        for row in connections
        for direction in (0, 1)
    }
    for each in fragments:
        state = states[each["connection"], each["direction"]]
        state.partial, state.frame_origin = each["payload"], each
    return states


def spanning_frames(  # noqa: PLR0917 - called once
    states: DirectionStates,
    rows: Sequence[Row],
    fragments: Sequence[Row],
    clients: Mapping[int, tuple[int, str]],
    problems: ProblemRows,
    growing: frozenset[str],
) -> list[Row]:
    """Return the frames that begin in one file and end in another.

    `clients` maps a connection id to the id of its first file, and to its client. In a part of a
    file with responses only, client and broker may be swapped.
    """
    pieces: dict[tuple[str, int, int, bool], list[Row]] = {}
    for each in fragments:
        key = (each["file"], each["connection"], each["direction"], each["is_before_first_frame"])
        pieces.setdefault(key, []).append(each)
    frames: list[Row] = []
    for row in rows:
        number = row["connection"]
        first_id, client = clients[number]
        is_growing = row["file"] in growing
        for direction in (0, 1):
            actual_direction = direction ^ (row["client"] != client)
            state = states.setdefault((first_id, actual_direction), DirectionState())
            heads = pieces.get((row["file"], number, direction, True), [])
            tail = next(iter(pieces.get((row["file"], number, direction, False), [])), None)
            if is_growing and not heads:
                continue  # the bytes before the first frame may still follow
            problem = _continue_frames(state, heads, actual_direction, frames)
            if problem:
                problems.append(
                    (
                        ProblemKind.GAP.value, row["file"], heads[0]["offset"] if heads else None,
                        f"{row['client']} > {row['broker']}", problem, 1,
                    )
                )  # fmt: skip
            end = row[_END_COLUMNS[direction]]
            if end is not None and not is_growing:
                if tail is not None or end != state.end:
                    state.partial = b"" if tail is None else tail["payload"]
                    state.frame_origin = tail or {}
                state.end = end
    return frames


def _continue_frames(
    state: DirectionState, heads: Sequence[Row], direction: int, frames: list[Row]
) -> str:
    """Process the bytes before the first frame of a file; return the text of a problem, or ""."""
    if not heads:
        lost_bytes, state.partial = len(state.partial), b""
        return f"{lost_bytes} bytes of an incomplete frame" if lost_bytes else ""
    if state.end == heads[0]["seq"]:
        for head in heads:
            _add_frames(state, head, direction, frames)
        return ""
    is_known = state.end is not None
    lost_bytes = len(state.partial) + sum(len(head["payload"]) for head in heads)
    state.partial, state.end = b"", (heads[-1]["seq"] + len(heads[-1]["payload"])) & SEQ_MASK
    return f"{lost_bytes} bytes between files that are not contiguous" if is_known else ""


def _add_frames(state: DirectionState, head: Row, direction: int, frames: list[Row]) -> None:
    data = state.partial + head["payload"]
    at, frame_origin = 0, (state.frame_origin if state.partial else {}) or head
    while at + LENGTH_BYTES <= len(data):
        stop = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES])
        if stop > len(data) or stop - at > MAX_FRAME_BYTES:
            break
        body = data[at + LENGTH_BYTES : stop]
        frames.append(
            {**frame_origin, "direction": direction, "payload": body, "ts": head["end_ts"],
             "connection": head["connection"],
             "request_seq": head["acknowledged"] if direction else head["seq"]}
        )  # fmt: skip
        at, frame_origin = stop, head
    state.partial, state.frame_origin = data[at:], frame_origin
    state.end = (head["seq"] + len(head["payload"])) & SEQ_MASK
