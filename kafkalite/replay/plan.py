"""Plan: a capture as the steps of its replay, in the order in which they happened.

A step is sending a request, seeing its response, opening or closing a connection. Taken one after
the other they keep all causality there was: what was sent after a response was seen is sent after
its counterpart, on whichever connections the two were; and what was outstanding together still is.

A request is handed out when its fate is known, answered or not; so the plan looks ahead, up to a
bound. A request that is undecided still when the bound is reached is left out, which is a step of
its own as soon as more is known of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkalite.capture.model import Closed, Direction, Frame, Opened
from kafkalite.capture.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.capture.model import Connection, Event, Exchange, Problem

MOST_STEPS_AHEAD = 200_000
MOST_BYTES_AHEAD = 256 * 1024 * 1024
"""How far the plan looks ahead: both bound what it holds."""


@dataclass(frozen=True, slots=True)
class Open:
    """A connection appears."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class Send:
    """A request goes out; `exchange` is as far as its fate was known."""

    at_ns: int
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Await:
    """The response of a request that was sent is seen."""

    at_ns: int
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Close:
    """A connection ends."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A request is not sent, for its fate came to light beyond what the plan looks ahead."""

    at_ns: int
    exchange: Exchange


Step = Open | Send | Await | Close | LeftOut


@dataclass(slots=True)
class _Place:
    """Where a request stands among the steps, and its exchange once that is known."""

    at_ns: int
    body: bytes
    exchange: Exchange | None = None
    is_void: bool = False
    """Whether the frame turned out to be no request."""
    is_given_up: bool = False
    """Whether the steps have gone past it."""


def steps(
    events: Iterable[Event],
    problems: Callable[[Problem], None],
    *,
    clients: str | None = None,
    most_steps: int = MOST_STEPS_AHEAD,
    most_bytes: int = MOST_BYTES_AHEAD,
) -> Iterator[Step]:
    """Yield the steps of a capture; `clients` is a glob over client ids.

    A connection whose requests all come from other clients is left out whole.
    """
    ordered = _Plan(problems, most_steps, most_bytes).steps(events)
    return ordered if clients is None else _of_clients(ordered, clients)


class _Plan:
    """Pairs the capture's requests with their answers while it keeps their places."""

    def __init__(
        self, problems: Callable[[Problem], None], most_steps: int, most_bytes: int
    ) -> None:
        self._pairing = Pairing(problems)
        self._most_steps = most_steps
        self._most_bytes = most_bytes
        self._ahead: deque[_Place | Step] = deque()
        self._held = 0
        self._open: dict[int, deque[_Place]] = {}

    def steps(self, events: Iterable[Event]) -> Iterator[Step]:
        """Yield the steps, each request as soon as its fate and that of all before is known."""
        at_ns = 0
        for event in events:
            at_ns = event.at_ns
            self._note(event)
            for exchange in self._pairing.take(event):
                self._settle(exchange, at_ns)
            if isinstance(event, Closed):
                self._forget(event.connection)
                self._ahead.append(Close(event.at_ns, event.connection))
            yield from self._ready()
        for exchange in self._pairing.finish():
            self._settle(exchange, at_ns)
        for places in self._open.values():
            for place in places:
                place.is_void = True
        yield from self._ready()

    def _note(self, event: Event) -> None:
        """Keep a place for what becomes a step."""
        if isinstance(event, Opened):
            self._ahead.append(Open(event.at_ns, event.connection))
        elif isinstance(event, Frame) and event.direction is Direction.REQUEST:
            place = _Place(event.at_ns, event.body)
            self._ahead.append(place)
            self._held += len(place.body)
            self._open.setdefault(event.connection.number, deque()).append(place)

    def _settle(self, exchange: Exchange, at_ns: int) -> None:
        waiting = self._open.get(exchange.connection.number, deque())
        for number, place in enumerate(waiting):
            if place.body is exchange.request:
                place.exchange = exchange
                del waiting[number]
                break
        else:
            return
        if place.is_given_up:
            self._ahead.append(LeftOut(at_ns, exchange))
        if exchange.response is not None and exchange.answered_ns is not None:
            # Answers come in the order of requests: what is still open before it is none.
            for _ in range(number):
                waiting.popleft().is_void = True
            if not place.is_given_up:
                self._held += len(exchange.response)
                self._ahead.append(Await(exchange.answered_ns, exchange))

    def _forget(self, connection: Connection) -> None:
        for place in self._open.pop(connection.number, ()):
            place.is_void = True

    def _ready(self) -> Iterator[Step]:
        ahead = self._ahead
        while ahead:
            first = ahead[0]
            if isinstance(first, _Place):
                if first.exchange is None and not first.is_void and not self._is_full():
                    return
                ahead.popleft()
                self._held -= len(first.body)
                if first.exchange is not None:
                    yield Send(first.at_ns, first.exchange)
                else:
                    first.is_given_up = not first.is_void
                continue
            ahead.popleft()
            if isinstance(first, Await):
                self._held -= len(first.exchange.response or b"")
            yield first

    def _is_full(self) -> bool:
        return len(self._ahead) > self._most_steps or self._held > self._most_bytes


def _of_clients(ordered: Iterable[Step], pattern: str) -> Iterator[Step]:
    """Leave out what other clients did; a connection opens with its first request that counts."""
    opened: set[int] = set()
    for step in ordered:
        if isinstance(step, Open):
            continue
        if isinstance(step, Close):
            if step.connection.number in opened:
                yield step
            continue
        exchange = step.exchange
        if not fnmatchcase(exchange.client_id or "", pattern):
            continue
        if exchange.connection.number not in opened:
            opened.add(exchange.connection.number)
            yield Open(step.at_ns, exchange.connection)
        yield step
