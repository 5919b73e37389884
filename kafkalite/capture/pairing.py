"""Requests and their responses: a broker answers each connection in order, if it answers."""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.messages import (
    CORRELATION_BYTES,
    Header,
    is_known,
    is_request,
    request_header,
    response_start,
    stranger_title,
)
from kafkalite.capture.model import Closed, Direction, Exchange, Frame, Problem, ProblemKind
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.blocks import Reporter
    from kafkalite.capture.model import Event

MAX_OPEN: Final = 100_000
"""How many requests of one connection may wait for their answers; the oldest are given up first."""

_PRODUCE: Final = 0
_BEFORE_BARE_TOKENS: Final = frozenset(((17, 0),))
"""SaslHandshake v0: behind it come the mechanism's tokens, in frames but without headers."""
_NO_ERROR: Final = b"\0\0"
_correlation = Struct(">i").unpack_from


class _Asked(NamedTuple):
    """A request that may yet be answered."""

    frame: Frame
    position: int
    header: Header


_TOKEN: Final = None
"""Stands in the line for a bare token, which is answered by one."""


class _Line:
    """The requests of one connection that wait for their answers, and how many there were."""

    __slots__ = ("count", "is_authenticating", "open")

    def __init__(self) -> None:
        self.open: deque[_Asked | None] = deque()
        self.count = 0
        self.is_authenticating = False


class Pairing:
    """Pairs the frames of all connections, event by event."""

    __slots__ = ("_lines", "_report")

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._lines: dict[int, _Line] = {}

    def take(self, event: Event) -> Sequence[Exchange]:
        """Return the exchanges that an event completes."""
        if isinstance(event, Frame):
            number = event.connection.number
            line = self._lines.get(number)
            if line is None:
                line = self._lines[number] = _Line()
            if event.direction is Direction.REQUEST:
                return self._ask(line, event)
            return self._answer(line, event)
        if isinstance(event, Closed):
            line = self._lines.pop(event.connection.number, None)
            return () if line is None else _unanswered(line.open)
        return ()

    def finish(self) -> Iterator[Exchange]:
        """Yield what nothing has answered."""
        for line in self._lines.values():
            yield from _unanswered(line.open)
        self._lines.clear()

    def _ask(self, line: _Line, frame: Frame) -> Sequence[Exchange]:
        if line.is_authenticating:
            if not is_request(frame.body):
                line.open.append(_TOKEN)
                return ()
            line.is_authenticating = False
        try:
            header = request_header(frame.body)
        except ProtocolViolation as violation:
            self._tell(ProblemKind.MALFORMED, frame, violation.reason)
            return ()
        if not is_known(header.api_key, header.api_version):
            self._tell(
                ProblemKind.UNKNOWN_VERSION,
                frame,
                stranger_title(header.api_key, header.api_version),
            )
        asked = _Asked(frame, line.count, header)
        line.count += 1
        if header.api_key == _PRODUCE and not _is_answer_due(frame.body, header):
            return (_exchange(asked, None, 0),)
        line.open.append(asked)
        return () if len(line.open) <= MAX_OPEN else _unanswered((line.open.popleft(),))

    def _answer(self, line: _Line, frame: Frame) -> Sequence[Exchange]:
        waiting = line.open
        if waiting and waiting[0] is _TOKEN:
            waiting.popleft()
            return ()
        if len(frame.body) < CORRELATION_BYTES:
            self._tell(ProblemKind.MALFORMED, frame, f"a response of {len(frame.body)} bytes")
            return ()
        (correlation_id,) = _correlation(frame.body)
        place = _place(waiting, correlation_id)
        if place < 0:
            self._tell(ProblemKind.NO_REQUEST, frame, f"correlation id {correlation_id}")
            return ()
        passed = [waiting.popleft() for _ in range(place)]
        asked = waiting.popleft()
        assert asked is not None
        header = asked.header
        try:
            start = response_start(frame.body, header.api_key, header.api_version)
        except ProtocolViolation as violation:
            self._tell(ProblemKind.MALFORMED, frame, violation.reason)
            start = len(frame.body)
        if (header.api_key, header.api_version) in _BEFORE_BARE_TOKENS:
            line.is_authenticating = frame.body[start : start + 2] == _NO_ERROR
        exchange = _exchange(asked, frame, start)
        return (*_unanswered(passed), exchange) if passed else (exchange,)

    def _tell(self, kind: ProblemKind, frame: Frame, detail: str) -> None:
        self._report(
            Problem(
                kind=kind,
                file=frame.file,
                offset=frame.offset,
                connection=str(frame.connection),
                detail=detail,
            )
        )


def _place(waiting: deque[_Asked | None], correlation_id: int) -> int:
    """Return how many wait before the request of this id, -1 where there is none."""
    for place, asked in enumerate(waiting):
        if asked is not None and asked.header.correlation_id == correlation_id:
            return place
    return -1


def _is_answer_due(frame: bytes, header: Header) -> bool:
    """Whether a Produce request asks for an answer; one that cannot be read may."""
    try:
        parse = codec.request_parser(header.api_key, header.api_version)
        message, _ = parse(frame, header.start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return True
    return bool(message.acks)


def _unanswered(waiting: Sequence[_Asked | None] | deque[_Asked | None]) -> list[Exchange]:
    return [_exchange(asked, None, 0) for asked in waiting if asked is not None]


def _exchange(asked: _Asked, response: Frame | None, response_start: int) -> Exchange:
    frame, position, header = asked
    return Exchange(
        connection=frame.connection,
        position=position,
        api_key=header.api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        sent_ns=frame.at_ns,
        answered_ns=None if response is None else response.at_ns,
        request=frame.body,
        request_start=header.start,
        response=None if response is None else response.body,
        response_start=response_start,
    )
