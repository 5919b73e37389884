"""Frames that begin in one file and end in another: the streams of connections, file by file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkalite.capture.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MASK: Final = 0xFFFFFFFF
_ENDS: Final = ("request_end", "response_end")

Row = dict[str, Any]
Told = list[tuple[str, str, int | None, str | None, str, int]]
"""Rows of the table of problems."""


@dataclass(slots=True)
class Thread:
    """One direction of one connection, on its way through the files."""

    end: int | None = None
    """TCP's number of the byte that comes next; None where that is not known."""
    rest: bytes = b""
    origin: Row = field(default_factory=dict)
    """The fragment that the rest begins in."""


Threads = dict[tuple[int, int], Thread]


def threads_of(connections: Sequence[Row], fragments: Sequence[Row]) -> Threads:
    """Return the directions of connections as they were left over."""
    threads = {
        (row["connection"], direction): Thread(row[_ENDS[direction]])
        for row in connections
        for direction in (0, 1)
    }
    for each in fragments:
        thread = threads[each["connection"], each["direction"]]
        thread.rest, thread.origin = each["payload"], each
    return threads


def spanning(  # noqa: PLR0917 - once called
    threads: Threads,
    rows: Sequence[Row],
    fragments: Sequence[Row],
    clients: Mapping[int, tuple[int, str]],
    problems: Told,
    growing: frozenset[str],
) -> list[Row]:
    """Return the frames that begin in one file and end in another.

    `clients` says of each number whose connection it is, and who is its client: a part of a file
    that has only answers takes them for requests.
    """
    pieces: dict[tuple[str, int, int, bool], list[Row]] = {}
    for each in fragments:
        key = (each["file"], each["connection"], each["direction"], each["is_head"])
        pieces.setdefault(key, []).append(each)
    found: list[Row] = []
    for row in rows:
        number = row["connection"]
        own, client = clients[number]
        grows = row["file"] in growing
        for direction in (0, 1):
            right = direction ^ (row["client"] != client)
            thread = threads.setdefault((own, right), Thread())
            heads = pieces.get((row["file"], number, direction, True), [])
            tail = next(iter(pieces.get((row["file"], number, direction, False), [])), None)
            if grows and not heads:
                continue  # it may still come
            wrong = _go_on(thread, heads, right, found)
            if wrong:
                problems.append(
                    (
                        ProblemKind.GAP.value, row["file"], heads[0]["offset"] if heads else None,
                        f"{row['client']} > {row['broker']}", wrong, 1,
                    )
                )  # fmt: skip
            end = row[_ENDS[direction]]
            if end is not None and not grows:
                if tail is not None or end != thread.end:
                    thread.rest = b"" if tail is None else tail["payload"]
                    thread.origin = tail or {}
                thread.end = end
    return found


def _go_on(thread: Thread, heads: Sequence[Row], direction: int, found: list[Row]) -> str:
    """Go through what a file has before its first frame; return what is wrong, if something is."""
    if not heads:
        lost, thread.rest = len(thread.rest), b""
        return f"{lost} bytes of a frame that does not go on" if lost else ""
    if thread.end == heads[0]["seq"]:
        for head in heads:
            _go_through(thread, head, direction, found)
        return ""
    known = thread.end is not None
    lost = len(thread.rest) + sum(len(head["payload"]) for head in heads)
    thread.rest, thread.end = b"", (heads[-1]["seq"] + len(heads[-1]["payload"])) & MASK
    return f"{lost} bytes between files that do not follow each other" if known else ""


def _go_through(thread: Thread, head: Row, direction: int, found: list[Row]) -> None:
    data = thread.rest + head["payload"]
    at, origin = 0, (thread.origin if thread.rest else {}) or head
    while at + LENGTH_BYTES <= len(data):
        stop = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES])
        if stop > len(data) or stop - at > MAX_FRAME_BYTES:
            break
        body = data[at + LENGTH_BYTES : stop]
        found.append(
            {**origin, "direction": direction, "payload": body, "ts": head["until"],
             "connection": head["connection"]}
        )  # fmt: skip
        at, origin = stop, head
    thread.rest, thread.origin = data[at:], origin
    thread.end = (head["seq"] + len(head["payload"])) & MASK
