"""Strict: answers by position; the nth request of an API on a connection gets the nth answer there.

A connection is matched with recorded ones API by API, for the threads of a client race: in which
order it says what belongs to different APIs, and on which of its connections it asks what any will
answer, is chance in librdkafka. What is no chance is kept: within an API the order, the version and
the number of requests; each recorded answer is given once. Only what clients ask to find their way
has no position: see `signposts`.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkalite.capture.messages import api_name
from kafkalite.replay.answers import Answer, MissError, recorded_answer
from kafkalite.replay.signposts import ASKED_TO_FIND_THE_WAY, Signposts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.capture.messages import Header
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

Kind = tuple[int, int]
"""An API and a version."""


class Part:
    """What one recorded connection asked of one API, and how far it has been played."""

    __slots__ = ("client_id", "connection", "exchanges", "played", "player")

    def __init__(self, first: Exchange) -> None:
        self.connection = first.connection.number
        self.client_id = first.client_id
        self.exchanges: list[Exchange] = []
        self.played = 0
        self.player: RequestContext | None = None
        """Which connection plays it."""

    def has_next(self, asked: Kind) -> bool:
        """Whether the next request is one of this API and version."""
        if self.played >= len(self.exchanges):
            return False
        each = self.exchanges[self.played]
        return (each.api_key, each.api_version) == asked


class Line:
    """One connection that is served: what it plays of which API."""

    __slots__ = ("parts", "recorded")

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.recorded: set[int] = set()
        """The recorded connections of which it plays something."""


class Strict:
    """Answers by position."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        parts: dict[tuple[int, int], Part] = {}
        by_position = [each for each in exchanges if each.api_key not in ASKED_TO_FIND_THE_WAY]
        for exchange in sorted(by_position, key=_place):
            place = exchange.connection.number, exchange.api_key
            if place not in parts:
                parts[place] = Part(exchange)
            parts[place].exchanges.append(exchange)
        self._left: defaultdict[int, list[Part]] = defaultdict(list)
        """API → what has not been played to its end."""
        for (_, api_key), part in parts.items():
            self._left[api_key].append(part)
        self._lines: dict[RequestContext, Line] = {}
        to_find_the_way = (each for each in exchanges if each.api_key in ASKED_TO_FIND_THE_WAY)
        self._signposts = Signposts(sorted(to_find_the_way, key=attrgetter("sent_ns")))

    @property
    def not_asked(self) -> Mapping[str, int]:
        """Return how many recorded requests of each API have not come."""
        left = {
            api_name(key): count
            for key, parts in sorted(self._left.items())
            if (count := sum(len(part.exchanges) - part.played for part in parts))
        }
        return {**left, **self._signposts.not_asked}

    def answer(self, context: RequestContext, header: Header, request: Message) -> Answer:
        """Return what stood at this place; MissError."""
        if header.api_key in ASKED_TO_FIND_THE_WAY:
            return recorded_answer(self._signposts.next(header, request))
        asked = (header.api_key, header.api_version)
        line = self._lines.get(context)
        if line is None:
            line = self._lines[context] = Line()
            context.on_close[self] = lambda: self._forget(context)
        part = line.parts.get(header.api_key)
        if part is None or not part.has_next(asked):
            part = self._part(context, line, asked, header.client_id)
        if part is None:
            raise self._miss(line, asked)
        found = part.exchanges[part.played]
        part.played += 1
        return recorded_answer(found)

    def _part(
        self, context: RequestContext, line: Line, asked: Kind, client_id: str | None
    ) -> Part | None:
        """Give a connection what goes on with its request, of recorded ones that it plays first."""
        api_key = asked[0]
        left = self._left[api_key] = [
            each for each in self._left[api_key] if each.played < len(each.exchanges)
        ]
        fitting = [each for each in left if each.has_next(asked)]
        if not fitting:
            return None
        found = min(
            fitting,
            key=lambda each: (
                each.client_id != client_id,
                each.connection not in line.recorded,
                each.player is not None,
                each.exchanges[each.played].sent_ns,
            ),
        )
        found.player = context
        line.parts[api_key] = found
        line.recorded.add(found.connection)
        return found

    def _miss(self, line: Line, asked: Kind) -> MissError:
        waiting = [each for each in self._left[asked[0]] if each.played < len(each.exchanges)]
        if waiting:
            versions = sorted({each.exchanges[each.played].api_version for each in waiting})
            told = ", ".join(f"v{version}" for version in versions)
            return MissError(f"what is left of this API is of {told}")
        part = line.parts.get(asked[0])
        count = 0 if part is None else part.played
        return MissError(f"all of this API was played, {count} times on this connection")

    def _forget(self, context: RequestContext) -> None:
        line = self._lines.pop(context, None)
        for part in () if line is None else line.parts.values():
            part.player = None


def _place(exchange: Exchange) -> tuple[int, int, int]:
    return exchange.connection.number, exchange.sent_ns, exchange.position
