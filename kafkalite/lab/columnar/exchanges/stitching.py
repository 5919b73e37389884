"""`stitch`: combines the rows of several files for connections that continue in a later file.

It finds connections that are the same, frames that begin in one file and end in another, and
responses to requests of an earlier file. The tables must have all rows of their connections, from
all files.

Files may be combined in several calls: pending rows are returned, and passed to the next call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import byte_array
from kafkalite.lab.columnar.exchanges.pairing import Frames, pair_frames
from kafkalite.lab.columnar.exchanges.spanning_frames import (
    SEQ_MASK,
    DirectionState,
    direction_states,
    spanning_frames,
)
from kafkalite.lab.columnar.frames.frame_index import UNKNOWN_SEQ, FrameIndex
from kafkalite.lab.columnar.frames.table_rows import ParsedFrames, pair_columns, slices, table_batch
from kafkalite.lab.columnar.options import Options
from kafkalite.lab.columnar.segments.endpoints import EndpointColumns
from kafkalite.lab.columnar.tables import CONNECTIONS, FRAGMENTS, PAIRS, PROBLEMS, UNPAIRED
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.exchanges.spanning_frames import DirectionStates, ProblemRows, Row

MAX_PENDING_BYTES: Final = 64 << 20
"""Maximum size of pending frames; above it, the earliest are treated as without counterpart."""


PENDING_FRAMES: Final = pa.schema(
    UNPAIRED.field(name)
    for name in (
        "file",
        "offset",
        "ts",
        "connection",
        "direction",
        "payload",
        "frame_number",
        "request_seq",
    )
)
"""The columns of a frame that are needed to pair it."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Rows that may continue in later files."""

    connections: pa.Table = field(default_factory=CONNECTIONS.empty_table)
    """Open connections: one merged row each, with the id of the connection in the first file."""
    fragments: pa.Table = field(default_factory=FRAGMENTS.empty_table)
    """Partial frames."""
    requests: pa.Table = field(default_factory=PENDING_FRAMES.empty_table)
    """Requests that have no response yet, and responses captured before their requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLimits:
    """Limits for pending rows."""

    requests_since_ns: int
    """Earlier requests are treated as unanswered, and earlier responses as without a request."""
    connections_since_ns: int
    """Connections without packets since then are dropped."""
    growing: frozenset[str] = frozenset()
    """Files that will have more rows of their connections."""


@dataclass(frozen=True, slots=True)
class Stitched:
    """The combined rows of several files."""

    pairs: pa.Table
    """Requests whose response was in another file, or that have none."""
    renamed: Mapping[int, int]
    """Id of a connection in a file without its opening → its id in the first file."""
    problems: pa.Table
    pending: Pending = field(default_factory=Pending)


class ConnectionEndpoints(NamedTuple):
    """The endpoints, node id and id of a connection, for `EndpointColumns`."""

    endpoint_names: tuple[str, str]
    node_id: int | None
    connection_id: int


def stitch(
    connections: pa.Table,
    fragments: pa.Table,
    unpaired: pa.Table,
    pending: Pending | None = None,
    limits: PendingLimits | None = None,
) -> Stitched:
    """Combine the rows of several files that belong to the same connections.

    The tables have the rows from `read_file` of all files that contain any of these connections and
    come after `pending`. Without `limits`, nothing stays pending.
    """
    pending = pending or Pending()
    known = pending.connections.to_pylist()
    rows = sorted(connections.to_pylist(), key=lambda row: (row["first_ns"], row["file"]))
    renamed = resolve_connections([*known, *rows])
    problem_rows: ProblemRows = []
    states = direction_states(known, pending.fragments.to_pylist())
    growing = frozenset() if limits is None else limits.growing
    merged = _merge_rows([*known, *rows], renamed)
    clients = {
        row["connection"]: (first_id, merged[first_id]["client"])
        for row in rows
        for first_id in [renamed.get(row["connection"], row["connection"])]
    }
    spanning_rows = spanning_frames(
        states, rows, fragments.to_pylist(), clients, problem_rows, growing
    )
    endpoints = [
        ConnectionEndpoints((row["client"], row["broker"]), row["node_id"], number)
        for number, row in sorted(merged.items())
    ]
    frames = _UnpairedFrames.of([pending.requests, unpaired], spanning_rows, renamed)
    policy = None if limits is None else _PendingPolicy(limits.requests_since_ns, merged)
    pairs, open_requests = _pair_unpaired(frames, endpoints, problem_rows, policy)
    columns: Any = zip(*problem_rows, strict=True) if problem_rows else ((),) * len(PROBLEMS)
    arrays = [pa.array(list(c), each.type) for c, each in zip(columns, PROBLEMS, strict=True)]
    problems = pa.Table.from_arrays(arrays, schema=PROBLEMS)
    if limits is None:
        return Stitched(pairs, renamed, problems)
    with_open_requests = set(open_requests["connection"].to_pylist())
    still_open = {
        number: row
        for number, row in merged.items()
        if number in with_open_requests
        or not (row["is_closed"] or row["last_ns"] < limits.connections_since_ns)
    }
    return Stitched(pairs, renamed, problems, _pending(still_open, states, open_requests))


def _merge_rows(rows: Sequence[Row], renamed: Mapping[int, int]) -> dict[int, Row]:
    """Return one row per connection, by id, from the rows of its files."""
    merged: dict[int, Row] = {}
    for row in rows:
        number = renamed.get(row["connection"], row["connection"])
        merged_row = merged.setdefault(number, {**row, "connection": number})
        merged_row["last_ns"] = max(merged_row["last_ns"], row["last_ns"])
        merged_row["is_closed"] |= row["is_closed"]
    return merged


def _pending(
    still_open: Mapping[int, Row], states: DirectionStates, open_requests: pa.Table
) -> Pending:
    """Return the pending rows of open connections."""
    rows = []
    fragments = []
    for number, row in still_open.items():
        sides = [states.get((number, direction), DirectionState()) for direction in (0, 1)]
        rows.append({**row, "request_end": sides[0].end, "response_end": sides[1].end})
        for direction, side in enumerate(sides):
            if side.partial and side.end is not None:
                known = {
                    "connection": number,
                    "direction": direction,
                    "is_before_first_frame": False,
                    "seq": (side.end - len(side.partial)) & SEQ_MASK,
                    "payload": side.partial,
                }
                fragments.append({**side.frame_origin, **known})
    return Pending(
        pa.Table.from_pylist(rows, CONNECTIONS),
        pa.Table.from_pylist(fragments, FRAGMENTS),
        open_requests,
    )


def resolve_connections(rows: Sequence[Row]) -> dict[int, int]:
    """Return id → id in the first file, for connections that continue from an earlier file.

    `rows` are those of CONNECTIONS, sorted by time.
    """
    last: dict[frozenset[str], tuple[int, bool]] = {}
    renamed: dict[int, int] = {}
    for row in rows:
        endpoints = frozenset((row["client"], row["broker"]))
        number = row["connection"]
        previous = last.get(endpoints)
        if row["opened_ns"] is None and previous is not None and not previous[1]:
            renamed[number] = number = previous[0]
        last[endpoints] = number, row["is_closed"]
    return renamed


# -- requests and responses ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _UnpairedFrames:
    """Requests and responses to be paired, sorted by time."""

    table: pa.Table

    @classmethod
    def of(
        cls, unpaired: Sequence[pa.Table], spanning_rows: Sequence[Row], renamed: Mapping[int, int]
    ) -> _UnpairedFrames:
        """Return the unpaired frames of files, and the frames that span files."""
        more = pa.Table.from_pylist(
            [{**row, "frame_number": 0} for row in spanning_rows], schema=PENDING_FRAMES
        )
        parts = [each.select(PENDING_FRAMES.names).cast(PENDING_FRAMES) for each in unpaired]
        table = pa.concat_tables([*parts, more])
        if renamed:
            old, new = list(renamed), list(renamed.values())
            index = pc.index_in(table["connection"], pa.array(old, pa.int64()))
            first_id = pc.coalesce(pc.take(pa.array(new, pa.int64()), index), table["connection"])
            table = table.set_column(3, PENDING_FRAMES.field("connection"), first_id)
        keys = [
            (name, "ascending")
            for name in ("connection", "ts", "direction", "file", "frame_number")
        ]
        return cls(table.take(pc.sort_indices(table, keys)).combine_chunks())


class _PendingPolicy(NamedTuple):
    """Decides which unpaired frames stay pending."""

    requests_since_ns: int
    connections: Mapping[int, Row]

    def split(self, frames: pa.Table, unpaired: Ints) -> tuple[Ints, Ints]:
        """Split unpaired frames into those that stay pending, and the others."""
        rows = frames.take(pa.array(unpaired)).select(["connection", "ts"])
        closed = [self.connections[each]["is_closed"] for each in rows["connection"].to_pylist()]
        sent_ns = rows["ts"].cast(pa.int64()).to_numpy() * 1000
        is_pending = (sent_ns >= self.requests_since_ns) & ~np.array(closed, np.bool_)
        # If there are too many, the latest ones stay pending.
        sizes = pc.binary_length(frames["payload"].take(pa.array(unpaired))).to_numpy()
        latest = np.argsort(-sent_ns, kind="stable")
        fits = np.empty(len(unpaired), np.bool_)
        fits[latest] = np.cumsum(sizes[latest]) <= MAX_PENDING_BYTES
        return unpaired[is_pending & fits], unpaired[~(is_pending & fits)]


def _pair_unpaired(
    unpaired: _UnpairedFrames,
    endpoints: Sequence[ConnectionEndpoints],
    problems: ProblemRows,
    policy: _PendingPolicy | None,
) -> tuple[pa.Table, pa.Table]:
    """Return requests with or without their responses, and the pending requests."""
    table = unpaired.table
    if not table.num_rows:
        return PAIRS.empty_table(), table
    parsed = _parse_frames(table, endpoints)
    frames = parsed.frames
    is_pairable, ids = parsed.headers.is_valid, parsed.headers.correlation_id
    found = pair_frames(
        Frames(frames.connection_index, frames.direction, ids, frames.request_seq, is_pairable),
        len(endpoints),
    )
    parsed.set_responses(found.request, found.response)
    expired = np.sort(np.concatenate([found.open, found.waiting]))
    pending = expired[:0]
    if policy is not None:
        pending, expired = policy.split(table, expired)
    is_request = frames.direction[expired] == 0
    without_response = np.concatenate([found.unanswered, expired[is_request]])
    without_request = np.concatenate([found.orphans, expired[~is_request]])
    request = np.concatenate([found.request, without_response])
    responses = np.concatenate([found.response, np.full(len(without_response), -1)])
    order = np.argsort(frames.packet[request], kind="stable")
    for row in without_request.tolist():
        connection = endpoints[frames.connection_index[row]]
        problems.append(
            (
                ProblemKind.NO_REQUEST.value, table["file"][row].as_py(), int(frames.offset[row]),
                " > ".join(connection.endpoint_names), "response without a request", 1,
            )
        )  # fmt: skip
    pairs = pa.Table.from_batches(
        _pair_batches(table, parsed, EndpointColumns(endpoints), request[order], responses[order]),
        schema=PAIRS,
    )
    open_requests = table.take(pa.array(np.sort(pending)))
    # Negative places sort before frames of the next files at the same time.
    places = pa.array(np.arange(len(pending)) - len(pending), pa.int64())
    return pairs, open_requests.set_column(6, PENDING_FRAMES.field("frame_number"), places)


def _parse_frames(table: pa.Table, endpoints: Sequence[ConnectionEndpoints]) -> ParsedFrames:
    """Return the unpaired frames in one buffer, with their headers."""
    payload = table["payload"].combine_chunks()
    payload = payload.chunk(0) if isinstance(payload, pa.ChunkedArray) else payload
    offsets = np.frombuffer(payload.buffers()[1], np.int32)[
        payload.offset : payload.offset + len(payload) + 1
    ].astype(np.int64)
    buffer = payload.buffers()[2]
    data = byte_array(buffer if buffer is not None else b"")
    index = {each.connection_id: number for number, each in enumerate(endpoints)}
    indexes = np.array([index[each] for each in table["connection"].to_pylist()], np.int64)
    frames = FrameIndex(
        connection_index=indexes,
        direction=table["direction"].to_numpy().astype(np.int64),
        start=offsets[:-1],
        size=np.diff(offsets),
        offset=table["offset"].to_numpy().astype(np.int64),
        at_ns=table["ts"].cast(pa.int64()).to_numpy() * 1000,
        request_seq=table["request_seq"].fill_null(UNKNOWN_SEQ).to_numpy().astype(np.int64),
        packet=np.arange(table.num_rows),
    )
    return ParsedFrames(data, frames)


def _pair_batches(
    table: pa.Table,
    parsed: ParsedFrames,
    endpoints: EndpointColumns,
    request: Ints,
    response: Ints,
) -> Iterator[pa.RecordBatch]:
    frames, options = parsed.frames, Options()
    sizes = frames.size[request] + np.where(response < 0, 0, frames.size[response])
    for part in slices(sizes, options.batch_rows, options.batch_bytes):
        columns = pair_columns(parsed, endpoints, request[part], response[part])
        columns["file"] = table["file"].take(pa.array(request[part])).combine_chunks()
        yield table_batch(PAIRS, columns)
