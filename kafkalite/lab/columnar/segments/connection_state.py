"""The connections of one file: their endpoints, and the state between chunks.

The state that every segment needs is in two tables of numbers, for compiled loops: one row per
direction, and one row per connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, overload

import numpy as np

from kafkalite.capture.reading.packets import reverse, sender
from kafkalite.lab.columnar.segments.endpoints import EndpointColumns
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.capture.model import Endpoint
    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.frames.irregular_connections import IrregularConnection

UNKNOWN: Final = -1
"""Represents an unknown sequence number."""

(
    NEXT_SEQ, INITIAL_SEQ, LATEST_NS,
    LAST_CHUNK, BEGIN_SEQ, END_SEQ, FLAGS, FIRST_ROW, LAST_ROW,
    RECEIVED, LENGTH, FRAME_ROW, FRAME_POSITION, PARTIAL_INDEX,
) = range(14)  # fmt: skip
"""Columns per direction. Valid between chunks: the next sequence number, the sequence number of the
SYN, and the latest time. The others are valid within a chunk: the last chunk with segments; the
sequence numbers at the beginning and at the end of its segments; their TCP flags; the first and the
last of their rows; the received bytes and the length of the incomplete frame, and the row and
position at which it begins; and the index of the partial frame of earlier chunks."""

MARKS, CONNECTION_LAST_CHUNK, IS_IRREGULAR, IS_RESET, LAST_NS = range(5)
"""Columns per connection: marks; the last chunk with segments; whether the connection is irregular
and whether it was reset in this chunk; the approximate time of the last packet."""

RECOGNIZED, HAS_FRAMES, CLOSED, IRREGULAR, FINISHED, PAIRED = 1, 2, 4, 8, 16, 64
"""Bits of MARKS: the connection's first bytes are a request; it has frames; it has ended; it is
processed segment by segment; the client has sent FIN; one of its requests has a response. Twice
FINISHED: the broker has sent FIN."""
BOTH_FINISHED: Final = FINISHED | 2 * FINISHED
"""Bits of MARKS: client and broker have sent FIN."""

_INITIAL_CAPACITY: Final = 64


def connection_id(client: str, broker: str, opened_ns: int | None, file: str = "") -> int:
    """Return the id of a connection, which is the same in all files that have its opening time.

    Without an opening time, the id depends on the file, until `stitching` combines the files.
    """
    opening = f"in {file}" if opened_ns is None else f"{opened_ns}"
    key = f"{client} {broker} {opening}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), signed=True)


class PartialFrame(NamedTuple):
    """The received bytes of an incomplete frame."""

    data: bytes
    offset: int
    """File offset of the packet in which it begins."""
    at_ns: int
    """Time of that packet."""


NO_PARTIAL_FRAME: Final = PartialFrame(b"", 0, 0)


class StateTables:
    """The numbers of all connections of a file."""

    __slots__ = ("changed", "connection_rows", "direction_rows", "partial_frames")

    def __init__(self, changed: set[int]) -> None:
        self.changed = changed
        """Receives the numbers of connections whose columns must be rebuilt."""
        self.direction_rows = np.full((2 * _INITIAL_CAPACITY, PARTIAL_INDEX + 1), UNKNOWN, np.int64)
        """One row per direction: index is twice the connection's number, plus one for responses."""
        self.connection_rows = np.zeros((_INITIAL_CAPACITY, LAST_NS + 1), np.int64)
        """One row per connection."""
        self.partial_frames: dict[int, PartialFrame] = {}
        """Partial frames by direction."""


class ConnectionStates(Sequence["ConnectionState"]):
    """The connections of one file that were found until now."""

    __slots__ = ("_states", "endpoints", "tables")

    def __init__(self) -> None:
        self._states: list[ConnectionState] = []
        self.endpoints = EndpointColumns(self)
        """The endpoints of the connections, as columns."""
        self.tables = StateTables(self.endpoints.stale)

    @property
    def direction_rows(self) -> Ints:
        """Return the table of directions."""
        return self.tables.direction_rows

    @property
    def connection_rows(self) -> Ints:
        """Return the table of connections."""
        return self.tables.connection_rows

    @property
    def partial_frames(self) -> dict[int, PartialFrame]:
        """Return the partial frames by direction."""
        return self.tables.partial_frames

    def __len__(self) -> int:
        return len(self._states)

    @overload
    def __getitem__(self, index: int) -> ConnectionState: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConnectionState]: ...
    def __getitem__(self, index: int | slice) -> ConnectionState | list[ConnectionState]:
        return self._states[index]

    def add(
        self, flows: tuple[bytes, bytes], opened_ns: int | None, connection_id: int, first_ns: int
    ) -> ConnectionState:
        """Add a connection."""
        number, tables = len(self._states), self.tables
        if number == len(tables.connection_rows):
            tables.connection_rows = np.concatenate(
                [tables.connection_rows, np.zeros_like(tables.connection_rows)]
            )
            tables.direction_rows = np.concatenate(
                [tables.direction_rows, np.full_like(tables.direction_rows, UNKNOWN)]
            )
        state = ConnectionState(tables, number, flows, opened_ns, connection_id, first_ns)
        self._states.append(state)
        return state


class ConnectionState:
    """One connection, as far as the file has been read."""

    __slots__ = (
        "_connection_id",
        "_endpoint_names",
        "_irregular",
        "_node_id",
        "_tables",
        "first_ns",
        "flows",
        "has_opening",
        "number",
        "opened_ns",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917
        self,
        tables: StateTables,
        number: int,
        flows: tuple[bytes, bytes],
        opened_ns: int | None,
        connection_id: int,
        first_ns: int,
    ) -> None:
        self._tables = tables
        self.number = number
        self.flows = flows
        """Both flows, as in the scalar reader; the first one is from the client to the broker."""
        self.opened_ns = opened_ns
        self._connection_id = connection_id
        self._node_id: int | None = None
        self.first_ns = first_ns
        self.has_opening = False
        """Whether the file contains the opening of the connection."""
        self._irregular: IrregularConnection | None = None
        self._endpoint_names: tuple[str, str] | None = None
        tables.changed.add(number)

    def set_client(self, client: bytes) -> None:
        """Set the client to the sender of a flow."""
        self.flows, self._endpoint_names = (client, reverse(client)), None
        self._tables.changed.add(self.number)

    @property
    def connection_id(self) -> int:
        """The connection's id in tables."""
        return self._connection_id

    @connection_id.setter
    def connection_id(self, connection_id: int) -> None:
        self._connection_id = connection_id
        self._tables.changed.add(self.number)

    @property
    def node_id(self) -> int | None:
        """The broker's node id, None if unknown."""
        return self._node_id

    @node_id.setter
    def node_id(self, node_id: int | None) -> None:
        # A comment may contain any number; invalid node ids are ignored.
        self._node_id = node_id if node_id is not None and -1 <= node_id < 1 << 31 else None
        self._tables.changed.add(self.number)

    @property
    def client(self) -> Endpoint:
        """The client's endpoint."""
        return sender(self.flows[0])

    @property
    def broker(self) -> Endpoint:
        """The broker's endpoint."""
        return sender(self.flows[1])

    @property
    def endpoint_names(self) -> tuple[str, str]:
        """Both endpoints as text."""
        if self._endpoint_names is None:
            self._endpoint_names = sender_text(self.flows[0]), sender_text(self.flows[1])
        return self._endpoint_names

    @property
    def next_seqs(self) -> Ints:
        """The next sequence number per direction, writable; UNKNOWN before the first."""
        return self._tables.direction_rows[2 * self.number : 2 * self.number + 2, NEXT_SEQ]

    @property
    def initial_seqs(self) -> Ints:
        """The sequence number of each direction's SYN, writable."""
        return self._tables.direction_rows[2 * self.number : 2 * self.number + 2, INITIAL_SEQ]

    @property
    def last_ns(self) -> int:
        """The approximate time of its last packet."""
        return int(self._tables.connection_rows[self.number, LAST_NS])

    @property
    def irregular(self) -> IrregularConnection | None:
        """The object that processes the connection segment by segment; None if it is regular."""
        return self._irregular

    @irregular.setter
    def irregular(self, irregular: IrregularConnection | None) -> None:
        self._irregular = irregular
        self.mark(IRREGULAR, irregular is not None)

    def is_marked(self, mark: int) -> bool:
        """Whether a bit of MARKS is set."""
        return bool(self._tables.connection_rows[self.number, MARKS] & mark)

    def mark(self, mark: int, is_set: bool = True) -> None:  # noqa: FBT001, FBT002 - the value
        """Set or clear a bit of MARKS."""
        self._tables.connection_rows[self.number, MARKS] &= ~mark
        self._tables.connection_rows[self.number, MARKS] |= mark * is_set

    def partial_frame(self, side: int) -> PartialFrame:
        """Return the partial frame of a direction."""
        return self._tables.partial_frames.get(2 * self.number + side, NO_PARTIAL_FRAME)

    def set_partial_frame(self, side: int, frame: PartialFrame) -> None:
        """Set the partial frame of a direction; empty data clears it."""
        if frame.data:
            self._tables.partial_frames[2 * self.number + side] = frame
        else:
            self._tables.partial_frames.pop(2 * self.number + side, None)


@lru_cache(1 << 12)
def sender_text(flow: bytes) -> str:
    """Return the sender of a flow as text."""
    return str(sender(flow))
