"""Several files' rows put together: connections that go on from file to file, and what spans them.

What one file could not say alone is said here: which connections are one, which frames begin in
one file and end in another, which response answers a request of the file before. The tables may
hold any number of connections, as long as they hold all that their files say of each.

Files may come in turns: what may go on in later ones is then left over, and put in again with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import view
from kafkalite.columnar.ends import Ends
from kafkalite.columnar.found import Found
from kafkalite.columnar.options import Options
from kafkalite.columnar.pairing import Frames, paired
from kafkalite.columnar.rows import Known, batch, pair_columns, slices
from kafkalite.columnar.spanning import MASK, Thread, spanning, threads_of
from kafkalite.columnar.tables import CONNECTIONS, FRAGMENTS, PAIRS, PROBLEMS, UNPAIRED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.spanning import Row, Threads, Told

MAX_LEFT_BYTES: Final = 64 << 20
"""How much is left over of requests that wait: beyond it, the earliest are given up."""


HALVES: Final = pa.schema(
    UNPAIRED.field(name)
    for name in ("file", "offset", "ts", "connection", "direction", "payload", "place")
)
"""What is needed of a frame to look for its other half."""


@dataclass(frozen=True, slots=True)
class Left:
    """What may go on in files to come."""

    connections: pa.Table = field(default_factory=CONNECTIONS.empty_table)
    """Those that have not ended, under their own numbers: one row each, over all files so far."""
    fragments: pa.Table = field(default_factory=FRAGMENTS.empty_table)
    """The beginnings of frames."""
    requests: pa.Table = field(default_factory=HALVES.empty_table)
    """Those that wait for their responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """For how long something is left over."""

    give_up_ns: int
    """Requests that were asked before count as never answered."""
    forget_ns: int
    """Connections that have been silent since before are forgotten."""
    growing: frozenset[str] = frozenset()
    """Files that will have more to say of their connections."""


@dataclass(frozen=True, slots=True)
class Stitched:
    """What several files say together."""

    pairs: pa.Table
    """Requests whose responses were in another file, or nowhere."""
    renamed: Mapping[int, int]
    """Numbers that connections have in files that do not know their beginnings → their own."""
    problems: pa.Table
    left: Left = field(default_factory=Left)


class Party(NamedTuple):
    """One connection's ends, as rows tell them."""

    names: tuple[str, str]
    node_id: int | None
    connection: int


def stitch(
    connections: pa.Table,
    fragments: pa.Table,
    unpaired: pa.Table,
    before: Left | None = None,
    waiting: Waiting | None = None,
) -> Stitched:
    """Put together what files say of the same connections.

    The tables are those of `read_file`, of all files that know any of these connections: of those
    that come after what is `before`. Nothing is left over unless there is to be `waiting`.
    """
    before = before or Left()
    known = before.connections.to_pylist()
    rows = sorted(connections.to_pylist(), key=lambda row: (row["first_ns"], row["file"]))
    renamed = resolved([*known, *rows])
    told: Told = []
    threads = threads_of(known, before.fragments.to_pylist())
    growing = frozenset() if waiting is None else waiting.growing
    merged = _merged([*known, *rows], renamed)
    clients = {
        row["connection"]: (own, merged[own]["client"])
        for row in rows
        for own in [renamed.get(row["connection"], row["connection"])]
    }
    whole = spanning(threads, rows, fragments.to_pylist(), clients, told, growing)
    parties = [
        Party((row["client"], row["broker"]), row["node_id"], number)
        for number, row in sorted(merged.items())
    ]
    halves = _Halves.of([before.requests, unpaired], whole, renamed)
    patience = None if waiting is None else _Patience(waiting.give_up_ns, merged)
    pairs, open_ = _pairs(halves, parties, told, patience)
    columns: Any = zip(*told, strict=True) if told else ((),) * len(PROBLEMS)
    arrays = [pa.array(list(c), each.type) for c, each in zip(columns, PROBLEMS, strict=True)]
    problems = pa.Table.from_arrays(arrays, schema=PROBLEMS)
    if waiting is None:
        return Stitched(pairs, renamed, problems)
    asking = set(open_["connection"].to_pylist())
    still = {
        number: row
        for number, row in merged.items()
        if number in asking or not (row["is_closed"] or row["last_ns"] < waiting.forget_ns)
    }
    return Stitched(pairs, renamed, problems, _left(still, threads, open_))


def _merged(rows: Sequence[Row], renamed: Mapping[int, int]) -> dict[int, Row]:
    """Return what the rows of each connection say together."""
    merged: dict[int, Row] = {}
    for row in rows:
        number = renamed.get(row["connection"], row["connection"])
        one = merged.setdefault(number, {**row, "connection": number})
        one["last_ns"] = max(one["last_ns"], row["last_ns"])
        one["is_closed"] |= row["is_closed"]
    return merged


def _left(still: Mapping[int, Row], threads: Threads, open_: pa.Table) -> Left:
    """Return what may go on, of the connections that do."""
    rows = []
    fragments = []
    for number, row in still.items():
        sides = [threads.get((number, direction), Thread()) for direction in (0, 1)]
        rows.append({**row, "request_end": sides[0].end, "response_end": sides[1].end})
        for direction, side in enumerate(sides):
            if side.rest and side.end is not None:
                known = {
                    "connection": number,
                    "direction": direction,
                    "is_head": False,
                    "seq": (side.end - len(side.rest)) & MASK,
                    "payload": side.rest,
                }
                fragments.append({**side.origin, **known})
    return Left(
        pa.Table.from_pylist(rows, CONNECTIONS), pa.Table.from_pylist(fragments, FRAGMENTS), open_
    )


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


# -- requests and responses ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Halves:
    """Requests and responses without the other, in the order in which they came."""

    table: pa.Table

    @classmethod
    def of(
        cls, left_over: Sequence[pa.Table], whole: Sequence[Row], renamed: Mapping[int, int]
    ) -> _Halves:
        """Return what files have left over, and what spans them."""
        more = pa.Table.from_pylist([{**row, "place": 0} for row in whole], schema=HALVES)
        parts = [each.select(HALVES.names).cast(HALVES) for each in left_over]
        table = pa.concat_tables([*parts, more])
        if renamed:
            old, new = list(renamed), list(renamed.values())
            index = pc.index_in(table["connection"], pa.array(old, pa.int64()))
            own = pc.coalesce(pc.take(pa.array(new, pa.int64()), index), table["connection"])
            table = table.set_column(3, HALVES.field("connection"), own)
        keys = [(name, "ascending") for name in ("connection", "ts", "direction", "file", "place")]
        return cls(table.take(pc.sort_indices(table, keys)).combine_chunks())


class _Patience(NamedTuple):
    """Which requests without a response may yet get one."""

    give_up_ns: int
    connections: Mapping[int, Row]

    def parted(self, halves: pa.Table, open_: Ints) -> tuple[Ints, Ints]:
        """Part open requests into those that wait on and those that are given up."""
        rows = halves.take(pa.array(open_)).select(["connection", "ts"])
        over = [self.connections[each]["is_closed"] for each in rows["connection"].to_pylist()]
        asked_ns = rows["ts"].cast(pa.int64()).to_numpy() * 1000
        waits = (asked_ns >= self.give_up_ns) & ~np.array(over, np.bool_)
        # The latest ones, where there are too many.
        held = pc.binary_length(halves["payload"].take(pa.array(open_))).to_numpy()
        latest = np.argsort(-asked_ns, kind="stable")
        room = np.empty(len(open_), np.bool_)
        room[latest] = np.cumsum(held[latest]) <= MAX_LEFT_BYTES
        return open_[waits & room], open_[~(waits & room)]


def _pairs(
    halves: _Halves,
    parties: Sequence[Party],
    problems: Told,
    patience: _Patience | None,
) -> tuple[pa.Table, pa.Table]:
    """Return requests with or without their responses, and those that wait on, as `HALVES`."""
    table = halves.table
    if not table.num_rows:
        return PAIRS.empty_table(), table
    known = _known(table, parties)
    frames = known.frames
    found = paired(
        Frames(frames.line, frames.direction, known.heads.correlation_id, known.heads.is_right),
        len(parties),
    )
    known.answer(found.request, found.response)
    waits, given_up = found.open[:0], found.open
    if patience is not None:
        waits, given_up = patience.parted(table, found.open)
    alone = np.concatenate([found.never, given_up])
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
    pairs = pa.Table.from_batches(
        _batches(table, known, Ends(parties), request[order], answers[order]), schema=PAIRS
    )
    open_ = table.take(pa.array(np.sort(waits)))
    # They come before whatever the next files have of the same moment.
    places = pa.array(np.arange(len(waits)) - len(waits), pa.int64())
    return pairs, open_.set_column(6, HALVES.field("place"), places)


def _known(table: pa.Table, parties: Sequence[Party]) -> Known:
    """Return the halves as frames in one buffer."""
    payload = table["payload"].combine_chunks()
    payload = payload.chunk(0) if isinstance(payload, pa.ChunkedArray) else payload
    offsets = np.frombuffer(payload.buffers()[1], np.int32)[
        payload.offset : payload.offset + len(payload) + 1
    ].astype(np.int64)
    buffer = payload.buffers()[2]
    data = view(buffer if buffer is not None else b"")
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
    return Known(data, frames)


def _batches(
    table: pa.Table,
    known: Known,
    ends: Ends,
    request: Ints,
    response: Ints,
) -> Iterator[pa.RecordBatch]:
    frames, options = known.frames, Options()
    sizes = frames.size[request] + np.where(response < 0, 0, frames.size[response])
    for part in slices(sizes, options.batch_rows, options.batch_bytes):
        columns = pair_columns(known, ends, request[part], response[part])
        columns["file"] = table["file"].take(pa.array(request[part])).combine_chunks()
        yield batch(PAIRS, columns)
