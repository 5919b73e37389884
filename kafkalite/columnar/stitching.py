"""Several files' rows put together: connections that go on from file to file, and what spans them.

What one file could not say alone is said here: which connections are one, which frames begin in
one file and end in another, which response answers a request of the file before. The tables may
hold any number of connections, as long as they hold all that their files say of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.found import Found
from kafkalite.columnar.options import Options
from kafkalite.columnar.pairing import Frames, paired
from kafkalite.columnar.rows import Known, PairColumns, slices
from kafkalite.columnar.tables import PAIRS, PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.rows import Parties

_MASK: Final = 0xFFFFFFFF
_ENDS: Final = ("request_end", "response_end")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stitched:
    """What several files say together."""

    pairs: pa.Table
    """Requests whose responses were in another file, or nowhere."""
    renamed: Mapping[int, int]
    """Numbers that connections have in files that do not know their beginnings → their own."""
    problems: pa.Table


class Party(NamedTuple):
    """One connection's ends, as rows tell them."""

    names: tuple[str, str]
    node_id: int | None
    connection: int


def stitch(connections: pa.Table, fragments: pa.Table, unpaired: pa.Table) -> Stitched:
    """Put together what files say of the same connections.

    The tables are those of `read_file`, of all files that know any of these connections.
    """
    rows = sorted(connections.to_pylist(), key=lambda row: (row["first_ns"], row["file"]))
    renamed = resolved(rows)
    problems: list[tuple[str, str, int | None, str | None, str, int]] = []
    spanning = _spanning(rows, fragments.to_pylist(), renamed, problems)
    parties = {
        renamed.get(row["connection"], row["connection"]): Party(
            (row["client"], row["broker"]), row["node_id"],
            renamed.get(row["connection"], row["connection"]),
        )
        for row in reversed(rows)
    }  # fmt: skip
    pairs = _pairs(
        _Halves.of(unpaired, spanning, renamed),
        [parties[each] for each in sorted(parties)],
        problems,
    )
    columns: Any = zip(*problems, strict=True) if problems else ((),) * len(PROBLEMS)
    arrays = [pa.array(list(c), each.type) for c, each in zip(columns, PROBLEMS, strict=True)]
    return Stitched(pairs, renamed, pa.Table.from_arrays(arrays, schema=PROBLEMS))


def resolved(rows: Sequence[Row]) -> dict[int, int]:
    """Return the numbers of connections whose beginnings are in earlier files than theirs.

    `rows` are those of CONNECTIONS, in the order of time.
    """
    last: dict[frozenset[str], tuple[int, bool]] = {}
    renamed: dict[int, int] = {}
    for row in rows:
        ends = frozenset((row["client"], row["broker"]))
        number = row["connection"]
        before = last.get(ends)
        if row["opened_ns"] is None and before is not None and not before[1]:
            renamed[number] = number = before[0]
        last[ends] = number, row["is_closed"]
    return renamed


# -- frames that span files ----------------------------------------------------------------


@dataclass(slots=True)
class _Thread:
    """One direction of one connection, on its way through the files."""

    end: int | None = None
    """TCP's number of the byte that comes next; None where that is not known."""
    rest: bytes = b""
    origin: Row = field(default_factory=dict)
    """The fragment that the rest begins in."""


def _spanning(
    rows: Sequence[Row],
    fragments: Sequence[Row],
    renamed: Mapping[int, int],
    problems: list[tuple[str, str, int | None, str | None, str, int]],
) -> list[Row]:
    """Return the frames that begin in one file and end in another."""
    pieces: dict[tuple[str, int, int, bool], Row] = {}
    for each in fragments:
        key = (each["file"], each["connection"], each["direction"], each["is_head"])
        pieces[key] = each
    threads: dict[tuple[int, int], _Thread] = {}
    found: list[Row] = []
    for row in rows:
        number = row["connection"]
        for direction in (0, 1):
            thread = threads.setdefault((renamed.get(number, number), direction), _Thread())
            head = pieces.get((row["file"], number, direction, True))
            tail = pieces.get((row["file"], number, direction, False))
            wrong = _go_on(thread, head, direction, found)
            if wrong:
                problems.append(
                    (
                        ProblemKind.GAP.value, row["file"], head["offset"] if head else None,
                        f"{row['client']} > {row['broker']}", wrong, 1,
                    )
                )  # fmt: skip
            end = row[_ENDS[direction]]
            if end is not None:
                if tail is not None or end != thread.end:
                    thread.rest = b"" if tail is None else tail["payload"]
                    thread.origin = tail or {}
                thread.end = end
    return found


def _go_on(thread: _Thread, head: Row | None, direction: int, found: list[Row]) -> str:
    """Go through what a file has before its first frame; return what is wrong, if something is."""
    if head is None:
        lost, thread.rest = len(thread.rest), b""
        return f"{lost} bytes of a frame that does not go on" if lost else ""
    if thread.end != head["seq"]:
        known = thread.end is not None
        lost = len(thread.rest) + len(head["payload"])
        thread.rest, thread.end = b"", (head["seq"] + len(head["payload"])) & _MASK
        return f"{lost} bytes between files that do not follow each other" if known else ""
    data = thread.rest + head["payload"]
    at, origin = 0, thread.origin or head
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
    thread.end = (head["seq"] + len(head["payload"])) & _MASK
    return ""


# -- requests and responses ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Halves:
    """Requests and responses without the other, in the order in which they came."""

    table: pa.Table

    @classmethod
    def of(cls, unpaired: pa.Table, spanning: Sequence[Row], renamed: Mapping[int, int]) -> _Halves:
        """Return what files have left over, and what spans them."""
        names = ["file", "offset", "ts", "connection", "direction", "payload", "place"]
        rows = [{**row, "place": 0} for row in spanning]
        schema = pa.schema([unpaired.schema.field(name) for name in names])
        more = pa.Table.from_pylist(rows, schema=schema)
        table = pa.concat_tables([unpaired.select(names), more])
        if renamed:
            old, new = list(renamed), list(renamed.values())
            index = pc.index_in(table["connection"], pa.array(old, pa.int64()))
            own = pc.coalesce(pc.take(pa.array(new, pa.int64()), index), table["connection"])
            table = table.set_column(3, schema.field("connection"), own)
        keys = [(name, "ascending") for name in ("connection", "ts", "direction", "file", "place")]
        return cls(table.take(pc.sort_indices(table, keys)).combine_chunks())


def _pairs(
    halves: _Halves,
    parties: Sequence[Party],
    problems: list[tuple[str, str, int | None, str | None, str, int]],
) -> pa.Table:
    table = halves.table
    if not table.num_rows:
        return PAIRS.empty_table()
    known = _known(table, parties)
    frames = known.frames
    takes_part = np.flatnonzero(known.is_right)
    found = paired(
        Frames(
            frames.line[takes_part], frames.direction[takes_part],
            known.correlation_id[takes_part], known.awaits[takes_part], frames.packet[takes_part],
        ),
        len(parties),
    )  # fmt: skip
    found = type(found)(*(takes_part[each] for each in found))
    known.answer(found.request, found.response)
    alone = np.concatenate([found.never, found.open])
    request = np.concatenate([found.request, alone])
    answers = np.concatenate([found.response, np.full(len(alone), -1)])
    order = np.argsort(frames.packet[request], kind="stable")
    for row in found.orphans.tolist():
        party = parties[frames.line[row]]
        problems.append(
            (
                ProblemKind.NO_REQUEST.value, table["file"][row].as_py(), int(frames.offset[row]),
                " > ".join(party.names), "a response to no request", 1,
            )
        )  # fmt: skip
    return pa.Table.from_batches(
        _batches(table, known, parties, request[order], answers[order]), schema=PAIRS
    )


def _known(table: pa.Table, parties: Parties) -> Known:
    """Return the halves as frames in one buffer."""
    payload = table["payload"].combine_chunks()
    payload = payload.chunk(0) if isinstance(payload, pa.ChunkedArray) else payload
    offsets = np.frombuffer(payload.buffers()[1], np.int32)[
        payload.offset : payload.offset + len(payload) + 1
    ].astype(np.int64)
    buffer = payload.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    index = {party.connection: number for number, party in enumerate(parties)}
    line = np.array([index[each] for each in table["connection"].to_pylist()], np.int64)
    frames = Found(
        line=line,
        direction=table["direction"].to_numpy().astype(np.int64),
        start=offsets[:-1],
        size=np.diff(offsets),
        offset=table["offset"].to_numpy().astype(np.int64),
        at_ns=table["ts"].cast(pa.int64()).to_numpy() * 1000,
        packet=np.arange(table.num_rows),
    )
    known = Known(data, frames, frames.direction == 0)
    known.awaits[known.asks] = known.request.is_right
    return known


def _batches(
    table: pa.Table,
    known: Known,
    parties: Parties,
    request: Ints,
    response: Ints,
) -> Iterator[pa.RecordBatch]:
    columns = PairColumns("", known, parties, Options())
    is_open = response < 0
    said = np.where(is_open, 0, response)
    body = columns.bodies(request, said)
    sizes = known.frames.size[request] + np.where(is_open, 0, known.frames.size[said])
    options = Options()
    place = PAIRS.get_field_index("file")
    for part in slices(sizes, options.batch_rows, options.batch_bytes):
        made = columns.batch(request[part], said[part], is_open[part], body[part])
        files = table["file"].take(pa.array(request[part])).combine_chunks()
        yield made.set_column(place, PAIRS.field(place), files)
