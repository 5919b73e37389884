"""The two ends of connections as columns: rows are told by number whose they are.

Of a connection its columns are made once, and anew when something else is known of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from kafkalite.columnar.arrays import sealed, view
from kafkalite.columnar.payloads import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.columnar.arrays import Ints

_NOBODY = -1 << 63
"""In place of a broker's number: -1 is one, too."""
_CONNECTION, _NODE, _START, _SIZE = 0, 1, 2, 4


class Party(Protocol):
    """Whoever has two ends."""

    @property
    def names(self) -> tuple[str, str]:
        """The client's end, and the broker's."""

    @property
    def node_id(self) -> int | None:
        """The broker's number, where it is known."""

    @property
    def connection(self) -> int:
        """The number of the connection."""


class Ends:
    """The ends of some connections, which may be told more of, and become more."""

    __slots__ = ("_parties", "_table", "_text", "stale")

    def __init__(self, parties: Sequence[Party]) -> None:
        self._parties = parties
        self.stale = set(range(len(parties)))
        """Of which of them the columns are to be made, at first or anew."""
        self._table = np.zeros((_SIZE + 2, 0), np.int64)
        """A column each: its number, its broker's, and where both names are in the text."""
        self._text = np.zeros(0, np.uint8)

    def columns(self, rows: Ints) -> dict[str, Any]:
        """Return the columns that tell the connections of rows, which are numbers of them."""
        if self.stale:
            self._make()
        known, text = self._table.take(rows, axis=1), sealed(self._text)
        node = known[_NODE]
        client, broker = (
            text_of(text, known[_START + side], known[_SIZE + side]) for side in (0, 1)
        )
        return {
            "connection": pa.array(known[_CONNECTION]),
            "client": client,
            "broker": broker,
            "node_id": pa.array(node.astype(np.int32), mask=node == _NOBODY),
        }

    def _make(self) -> None:
        lacking = len(self._parties) - self._table.shape[1]
        more = np.zeros((len(self._table), lacking), np.int64)
        self._table = np.concatenate([self._table, more], axis=1)
        used, parts = len(self._text), []
        numbers = sorted(self.stale)
        for number in numbers:
            party = self._parties[number]
            node = _NOBODY if party.node_id is None else party.node_id
            client, broker = (name.encode() for name in party.names)
            parts += [client, broker]
            starts = used, used + len(client)
            self._table[:, number] = (party.connection, node, *starts, len(client), len(broker))
            used += len(client) + len(broker)
        self._text = np.concatenate([self._text, view(b"".join(parts))])
        self.stale.clear()
