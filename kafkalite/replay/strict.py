"""Strict: answers by position; the nth request of an API on a connection gets the nth answer there.

A connection is matched with recorded ones API by API, for the threads of a client race: in which
order it says what belongs to different APIs or partitions, and on which of its connections it asks
what any will answer, is chance in librdkafka. What is no chance is kept: within an API the order of
what is alike, the version and the number of requests; each recorded answer is given once.

What clients ask to find their way has no position: see `signposts`. Nor has a Fetch: a client that
gets records of partitions or offsets that it did not ask for breaks, and librdkafka aborts its
process. It gets what one got that asked for the very same; else records are read by offset.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkalite.capture.messages import api_name, parse_request
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.replay.answers import Answer, MissError, recorded_answer
from kafkalite.replay.likeness import Nearness, likeness
from kafkalite.replay.shelf_reader import read_on
from kafkalite.replay.signposts import ASKED_TO_FIND_THE_WAY, Signposts

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.capture.messages import Header
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message
    from kafkalite.replay.library import Library
    from kafkalite.replay.likeness import NameOf

Kind = tuple[int, int]
"""An API and a version."""

_AHEAD: Final = 256
"""So far behind the next one of a connection is looked for one that is more like what is asked."""


class Turn:
    """One recorded exchange that has not been played, and what it is about."""

    __slots__ = ("_about", "_is_read", "exchange")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._about: Hashable = None
        self._is_read = False

    def about(self, name_of: NameOf) -> Hashable:
        """Return what is equal for those that are alike; None where it cannot be read.

        Read when somebody asks: nearly always it is the first that is looked at.
        """
        if not self._is_read:
            self._is_read = True
            try:
                self._about = _about(self.exchange.api_key, parse_request(self.exchange), name_of)
            except ProtocolViolation:
                self._about = None
        return self._about


class Part:
    """What one recorded connection asked of one API, and what of it is left to play."""

    __slots__ = ("client_id", "connection", "left", "played", "player")

    def __init__(self, first: Exchange) -> None:
        self.connection = first.connection.number
        self.client_id = first.client_id
        self.left: deque[Turn] = deque()
        self.played = 0
        self.player: RequestContext | None = None
        """Which connection plays it."""

    def has_next(self, asked: Kind) -> bool:
        """Whether the next request is one of this API and version."""
        return bool(self.left) and _kind(self.left[0].exchange) == asked

    def place(self, asked: Kind, about: Hashable, name_of: NameOf) -> int | None:
        """Return how far from here the next one is that is alike; None where none is near."""
        for at, turn in enumerate(islice(self.left, _AHEAD)):
            if _kind(turn.exchange) == asked and turn.about(name_of) == about:
                return at
        return None

    def play(self, at: int) -> Exchange:
        """Return the exchange there, which is then no longer left."""
        found = self.left[at].exchange
        del self.left[at]
        self.played += 1
        return found


class Line:
    """One connection that is served: what it plays of which API."""

    __slots__ = ("parts", "recorded")

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.recorded: set[int] = set()
        """The recorded connections of which it plays something."""


class Strict:
    """Answers by position."""

    def __init__(self, exchanges: Sequence[Exchange], library: Library) -> None:
        self._library = library
        parts: dict[tuple[int, int], Part] = {}
        for exchange in sorted(filter(_has_position, exchanges), key=_place):
            place = exchange.connection.number, exchange.api_key
            if place not in parts:
                parts[place] = Part(exchange)
            parts[place].left.append(Turn(exchange))
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
            if (count := sum(len(part.left) for part in parts))
        }
        return {**left, **self._signposts.not_asked}

    def answer(self, context: RequestContext, header: Header, request: Message) -> Answer:
        """Return what stood at this place; MissError."""
        if header.api_key in ASKED_TO_FIND_THE_WAY:
            return recorded_answer(self._signposts.next(header, request))
        asked = (header.api_key, header.api_version)
        about = _about(header.api_key, request, self._library.names.get)
        line = self._lines.get(context)
        if line is None:
            line = self._lines[context] = Line()
            context.on_close[self] = lambda: self._forget(context)
        part = line.parts.get(header.api_key)
        if part is None or not part.has_next(asked):
            part = self._part(context, line, asked, about, header.client_id)
        at = None if part is None else part.place(asked, about, self._library.names.get)
        if at is None and isinstance(request, FetchRequest):
            response, after_ns = read_on(self._library, request)
            return Answer(response, after_ns)
        if part is None:
            raise self._miss(line, asked)
        return recorded_answer(part.play(at or 0))

    def _part(
        self,
        context: RequestContext,
        line: Line,
        asked: Kind,
        about: Hashable,
        client_id: str | None,
    ) -> Part | None:
        """Give a connection what goes on with its request, of recorded ones that it plays first."""
        api_key = asked[0]
        left = self._left[api_key] = [each for each in self._left[api_key] if each.left]
        fitting = [each for each in left if each.has_next(asked)]
        if not fitting:
            return None
        name_of = self._library.names.get
        found = min(
            fitting,
            key=lambda each: (
                each.client_id != client_id,
                each.place(asked, about, name_of) is None,
                each.connection not in line.recorded,
                each.player is not None,
                each.left[0].exchange.sent_ns,
            ),
        )
        found.player = context
        line.parts[api_key] = found
        line.recorded.add(found.connection)
        return found

    def _miss(self, line: Line, asked: Kind) -> MissError:
        waiting = [each for each in self._left[asked[0]] if each.left]
        if waiting:
            versions = sorted({each.left[0].exchange.api_version for each in waiting})
            told = ", ".join(f"v{version}" for version in versions)
            return MissError(f"what is left of this API is of {told}")
        part = line.parts.get(asked[0])
        count = 0 if part is None else part.played
        return MissError(f"all of this API was played, {count} times on this connection")

    def _forget(self, context: RequestContext) -> None:
        line = self._lines.pop(context, None)
        for part in () if line is None else line.parts.values():
            part.player = None


def _kind(exchange: Exchange) -> Kind:
    return exchange.api_key, exchange.api_version


def _about(api_key: int, request: Message, name_of: NameOf) -> Hashable:
    nearness = Nearness.SAME if api_key == FetchRequest.API_KEY else Nearness.ALIKE
    return likeness(api_key, request, nearness, name_of)


def _has_position(exchange: Exchange) -> bool:
    """Whether an exchange is given where it stood.

    A Fetch under way when its client left is not: nobody else shall wait for ever for records.
    """
    if exchange.api_key == FetchRequest.API_KEY:
        return exchange.response is not None
    return exchange.api_key not in ASKED_TO_FIND_THE_WAY


def _place(exchange: Exchange) -> tuple[int, int, int]:
    return exchange.connection.number, exchange.sent_ns, exchange.position
