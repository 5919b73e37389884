"""The steps of a replay, in the recorded order.

A step sends a request, waits for its response, or opens or closes a connection. Executed in order,
the steps keep all causal dependencies. A request that was sent after a response, on any connection,
is sent after the target's response. Requests that were pending together are pending together again.

A Send step has the complete exchange, so the capture is read ahead until the response is known. The
look-ahead is bounded. A request whose response is beyond it is skipped; a `Skip` step is yielded
when the response is found.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkalite.capture.model import Closed, Direction, Frame, Opened
from kafkalite.capture.reading.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.capture.model import Connection, Event, Exchange, Problem

MAX_STEPS_AHEAD = 200_000
MAX_BYTES_AHEAD = 256 * 1024 * 1024
"""Limits of the look-ahead, in steps and in bytes."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open a connection."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request."""

    at_ns: int
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for the response to a request that was sent."""

    at_ns: int
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection."""

    at_ns: int
    connection: Connection


@dataclass(frozen=True, slots=True)
class Skip:
    """A request is not sent, because its response is beyond the look-ahead."""

    at_ns: int
    exchange: Exchange


Step = Open | Send | Await | Close | Skip


@dataclass(slots=True)
class _PendingSend:
    """A request in the look-ahead, and its exchange once that is known."""

    at_ns: int
    body: bytes
    exchange: Exchange | None = None
    is_discarded: bool = False
    """Whether the frame is known not to be a request with an exchange."""
    is_skipped: bool = False
    """Whether later steps were yielded before its exchange was known."""


def steps(
    events: Iterable[Event],
    problems: Callable[[Problem], None],
    *,
    clients: str | None = None,
    max_steps: int = MAX_STEPS_AHEAD,
    max_bytes: int = MAX_BYTES_AHEAD,
) -> Iterator[Step]:
    """Yield the steps of a capture; `clients` is a glob for client ids.

    Requests of other clients are omitted, and so are connections that have only such requests.
    """
    all_steps = _StepSequencer(problems, max_steps, max_bytes).steps(events)
    return all_steps if clients is None else _filter_clients(all_steps, clients)


class _StepSequencer:
    """Pairs the capture's requests with their responses, and yields the steps in order."""

    def __init__(self, problems: Callable[[Problem], None], max_steps: int, max_bytes: int) -> None:
        self._pairing = Pairing(problems)
        self._max_steps = max_steps
        self._max_bytes = max_bytes
        self._look_ahead: deque[_PendingSend | Step] = deque()
        self._buffered_bytes = 0
        self._pending_sends: dict[int, deque[_PendingSend]] = {}

    def steps(self, events: Iterable[Event]) -> Iterator[Step]:
        """Yield the steps, each as soon as the exchanges of all earlier requests are known."""
        at_ns = 0
        for event in events:
            at_ns = event.at_ns
            self._add_event(event)
            for exchange in self._pairing.process(event):
                self._add_exchange(exchange, at_ns)
            if isinstance(event, Closed):
                self._discard_pending_sends(event.connection)
                self._look_ahead.append(Close(event.at_ns, event.connection))
            yield from self._ready_steps()
        for exchange in self._pairing.finish():
            self._add_exchange(exchange, at_ns)
        for pending_sends in self._pending_sends.values():
            for pending_send in pending_sends:
                pending_send.is_discarded = True
        yield from self._ready_steps()

    def _add_event(self, event: Event) -> None:
        """Add the event to the look-ahead if it becomes a step."""
        if isinstance(event, Opened):
            self._look_ahead.append(Open(event.at_ns, event.connection))
        elif isinstance(event, Frame) and event.direction is Direction.REQUEST:
            pending_send = _PendingSend(event.at_ns, event.body)
            self._look_ahead.append(pending_send)
            self._buffered_bytes += len(pending_send.body)
            self._pending_sends.setdefault(event.connection.number, deque()).append(pending_send)

    def _add_exchange(self, exchange: Exchange, at_ns: int) -> None:
        pending_sends = self._pending_sends.get(exchange.connection.number, deque())
        for number, pending_send in enumerate(pending_sends):
            if pending_send.body is exchange.request:
                pending_send.exchange = exchange
                del pending_sends[number]
                break
        else:
            return
        if pending_send.is_skipped:
            self._look_ahead.append(Skip(at_ns, exchange))
        if exchange.response is not None and exchange.answered_ns is not None:
            # Responses have the order of requests, so earlier unanswered frames are not requests.
            for _ in range(number):
                pending_sends.popleft().is_discarded = True
            if not pending_send.is_skipped:
                self._buffered_bytes += len(exchange.response)
                self._look_ahead.append(Await(exchange.answered_ns, exchange))

    def _discard_pending_sends(self, connection: Connection) -> None:
        for pending_send in self._pending_sends.pop(connection.number, ()):
            pending_send.is_discarded = True

    def _ready_steps(self) -> Iterator[Step]:
        ahead = self._look_ahead
        while ahead:
            first = ahead[0]
            if isinstance(first, _PendingSend):
                if first.exchange is None and not first.is_discarded and not self._is_full():
                    return
                ahead.popleft()
                self._buffered_bytes -= len(first.body)
                if first.exchange is not None:
                    yield Send(first.at_ns, first.exchange)
                else:
                    first.is_skipped = not first.is_discarded
                continue
            ahead.popleft()
            if isinstance(first, Await):
                self._buffered_bytes -= len(first.exchange.response or b"")
            yield first

    def _is_full(self) -> bool:
        return len(self._look_ahead) > self._max_steps or self._buffered_bytes > self._max_bytes


def _filter_clients(all_steps: Iterable[Step], pattern: str) -> Iterator[Step]:
    """Yield the steps of matching clients; a connection is opened at its first matching request."""
    opened: set[int] = set()
    for step in all_steps:
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
