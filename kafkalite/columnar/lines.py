"""The connections of one file: who is at their ends, and what is carried from chunk to chunk.

What every segment asks for stands in two tables of numbers, which compiled loops read and write:
one row a direction, and one row a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, overload

import numpy as np

from kafkalite.capture.packets import reverse, sender
from kafkalite.columnar.ends import Ends

if TYPE_CHECKING:
    from kafkalite.capture.model import Endpoint
    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.exact import Exact

UNKNOWN: Final = -1
"""In place of a sequence number."""

(
    NEXT, INITIAL, LATEST_NS,
    CHUNK, BEGIN, END, FLAGS, FIRST, LAST, HAVE, LENGTH, PIECE, PLACE, REST,
) = range(14)  # fmt: skip
"""The columns of directions: the sequence numbers that come next and that opened it, and how far
its time is; then what `frames` needs within a chunk."""

MARKS, LINE_CHUNK, IS_ODD, IS_RESET, LAST_NS = range(5)
"""The columns of connections: what is known of it; what `frames` needs within a chunk; a time."""

JUDGED, APPEARED, OVER, EXACT, ENDED = 1, 2, 4, 8, 16
"""Bits of MARKS; twice ENDED stands for the responses."""

_FIRST_ROOM: Final = 64


def connection_id(client: str, broker: str, opened_ns: int | None, file: str = "") -> int:
    """Return the number of a connection: the same in every file that knows when it was opened.

    One that does not is told by the file's name, until files are put side by side.
    """
    opening = f"in {file}" if opened_ns is None else f"{opened_ns}"
    said = f"{client} {broker} {opening}".encode()
    return int.from_bytes(blake2b(said, digest_size=8).digest(), signed=True)


class Unfinished(NamedTuple):
    """The beginning of a frame that has not come whole."""

    data: bytes
    offset: int
    """Where in the file the packet stands that it begins in."""
    at_ns: int
    """That packet's time."""


NOTHING_LEFT: Final = Unfinished(b"", 0, 0)


class State:
    """What is known of all connections of a file, in numbers."""

    __slots__ = ("ends", "rests", "retold", "sides")

    def __init__(self, retold: set[int]) -> None:
        self.retold = retold
        """Is given the numbers of connections that are not any more what was told of them."""
        self.sides = np.full((2 * _FIRST_ROOM, REST + 1), UNKNOWN, np.int64)
        """Of each direction: twice the connection's number, and one more for responses."""
        self.ends = np.zeros((_FIRST_ROOM, LAST_NS + 1), np.int64)
        """Of each connection."""
        self.rests: dict[int, Unfinished] = {}
        """By direction."""


class Lines(Sequence["Line"]):
    """All connections of one file so far."""

    __slots__ = ("_lines", "state", "told")

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self.told = Ends(self)
        """What rows say of them."""
        self.state = State(self.told.stale)

    @property
    def sides(self) -> Ints:
        """Return the numbers of directions."""
        return self.state.sides

    @property
    def ends(self) -> Ints:
        """Return the numbers of connections."""
        return self.state.ends

    @property
    def rests(self) -> dict[int, Unfinished]:
        """Return the beginnings of frames, by direction."""
        return self.state.rests

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        return self._lines[index]

    def add(
        self, flows: tuple[bytes, bytes], opened_ns: int | None, connection: int, first_ns: int
    ) -> Line:
        """Add a connection."""
        number, state = len(self._lines), self.state
        if number == len(state.ends):
            state.ends = np.concatenate([state.ends, np.zeros_like(state.ends)])
            state.sides = np.concatenate([state.sides, np.full_like(state.sides, UNKNOWN)])
        line = Line(state, number, flows, opened_ns, connection, first_ns)
        self._lines.append(line)
        return line


class Line:
    """One connection, as far as the file has been read."""

    __slots__ = (
        "_connection", "_exact", "_names", "_node_id", "_state", "begins_here", "first_ns",
        "flows", "number", "opened_ns",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917
        self,
        state: State,
        number: int,
        flows: tuple[bytes, bytes],
        opened_ns: int | None,
        connection: int,
        first_ns: int,
    ) -> None:
        self._state = state
        self.number = number
        self.flows = flows
        """Both directions as `capture` names them: first the client's."""
        self.opened_ns = opened_ns
        self._connection = connection
        self._node_id: int | None = None
        self.first_ns = first_ns
        self.begins_here = False
        """Whether the file has its opening."""
        self._exact: Exact | None = None
        self._names: tuple[str, str] | None = None
        state.retold.add(number)

    def turn(self, client: bytes) -> None:
        """Take the sender on a flow for the client."""
        self.flows, self._names = (client, reverse(client)), None
        self._state.retold.add(self.number)

    @property
    def connection(self) -> int:
        """The number that rows tell it by."""
        return self._connection

    @connection.setter
    def connection(self, connection: int) -> None:
        self._connection = connection
        self._state.retold.add(self.number)

    @property
    def node_id(self) -> int | None:
        """The broker's number, where it is known."""
        return self._node_id

    @node_id.setter
    def node_id(self, node_id: int | None) -> None:
        # A comment may say any number: what is none of a broker says nothing.
        self._node_id = node_id if node_id is not None and -1 <= node_id < 1 << 31 else None
        self._state.retold.add(self.number)

    @property
    def client(self) -> Endpoint:
        """The client's end."""
        return sender(self.flows[0])

    @property
    def broker(self) -> Endpoint:
        """The broker's end."""
        return sender(self.flows[1])

    @property
    def names(self) -> tuple[str, str]:
        """Both as text."""
        if self._names is None:
            self._names = end_text(self.flows[0]), end_text(self.flows[1])
        return self._names

    @property
    def next_seqs(self) -> Ints:
        """The sequence numbers that come next, to be read and set; UNKNOWN before the first."""
        return self._state.sides[2 * self.number : 2 * self.number + 2, NEXT]

    @property
    def initials(self) -> Ints:
        """The sequence numbers of the packets that opened it, to be read and set."""
        return self._state.sides[2 * self.number : 2 * self.number + 2, INITIAL]

    @property
    def last_ns(self) -> int:
        """The last time of which something is known of it, more or less."""
        return int(self._state.ends[self.number, LAST_NS])

    @property
    def exact(self) -> Exact | None:
        """What follows it segment by segment, where it is not in order."""
        return self._exact

    @exact.setter
    def exact(self, exact: Exact | None) -> None:
        self._exact = exact
        self.mark(EXACT, exact is not None)

    def is_marked(self, mark: int) -> bool:
        """Whether it is JUDGED: its first bytes are a request's; APPEARED: has a frame; or OVER."""
        return bool(self._state.ends[self.number, MARKS] & mark)

    def mark(self, mark: int, is_so: bool = True) -> None:  # noqa: FBT001, FBT002 - what it says
        """Note the same."""
        self._state.ends[self.number, MARKS] &= ~mark
        self._state.ends[self.number, MARKS] |= mark * is_so

    def rest(self, side: int) -> Unfinished:
        """Return the beginning of a frame that has not come whole."""
        return self._state.rests.get(2 * self.number + side, NOTHING_LEFT)

    def keep(self, side: int, rest: Unfinished) -> None:
        """Keep such a beginning, which may be nothing."""
        if rest.data:
            self._state.rests[2 * self.number + side] = rest
        else:
            self._state.rests.pop(2 * self.number + side, None)


@lru_cache(1 << 12)
def end_text(flow: bytes) -> str:
    """Return the end of who sends on a flow."""
    return str(sender(flow))
