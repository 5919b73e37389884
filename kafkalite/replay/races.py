"""Races: requests of several connections under way together, of which one changes what others read.

Which of them a broker takes first is chance, and so is what the others are answered.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

_WRITERS = frozenset((0, 8, 11, 13, 14, 19, 20, 21, 24, 26, 28, 37, 47, 68, 76, 88))
"""APIs that change what others read: Produce, topics, records, transactions, groups, offsets."""


class UnderWay(NamedTuple):
    """A request that waits for its answer."""

    connection: int
    writes: bool
    was_raced: bool
    """Whether others wrote when it was sent."""
    at: int
    """How many writes had been sent by then."""


class Races:
    """Tells which requests race, in the same time however many are under way."""

    def __init__(self) -> None:
        self._writing: Counter[int] = Counter()
        """Connection → how many of its writes are under way."""
        self._last_by, self._last, self._last_of_others = -1, 0, 0
        """Who wrote last, the number of that write, and of the last one by anyone else."""

    def begin(self, exchange: Exchange) -> UnderWay:
        """Note that a request is sent."""
        connection, writes = exchange.connection.number, exchange.api_key in _WRITERS
        was_raced = len(self._writing) > (connection in self._writing)
        if writes:
            self._writing[connection] += 1
            if connection != self._last_by:
                self._last_by, self._last_of_others = connection, self._last
            self._last += 1
        return UnderWay(connection, writes, was_raced, self._last)

    def end(self, request: UnderWay) -> bool:
        """Note that its answer is seen; return whether it raced with requests of others."""
        connection = request.connection
        if request.writes:
            self._writing[connection] -= 1
            if not self._writing[connection]:
                del self._writing[connection]
        last = self._last_of_others if connection == self._last_by else self._last
        return request.was_raced or last > request.at
