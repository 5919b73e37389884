"""`Pairing`: pairs requests with their responses, which come in order on each connection."""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.traffic.model import Closed, Direction, Exchange, Frame, Problem, ProblemKind
from kafkalite.traffic.scalar.messages import (
    CORRELATION_BYTES,
    Header,
    is_known,
    is_request,
    request_header,
    response_start,
    unknown_request_title,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.traffic.formats.capture_files import Reporter
    from kafkalite.traffic.model import Event

MAX_PENDING_REQUESTS: Final = 100_000
"""Maximum pending requests of a connection; beyond it the oldest are treated as unanswered."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_HANDSHAKES_WITH_BARE_TOKENS: Final = frozenset(((int(ApiKey.SASL_HANDSHAKE), 0),))
"""SaslHandshake v0, after which tokens of the mechanism follow in frames without headers."""
_NO_ERROR: Final = b"\0\0"
_unpack_correlation_id = Struct(">i").unpack_from


class _Pending(NamedTuple):
    """A request that has no response yet."""

    frame: Frame
    position: int
    header: Header


_TOKEN: Final = None
"""Queue entry of a bare token; the response to it is a bare token as well."""


class _RequestQueue:
    """The pending requests of one connection, and the number of requests that it has sent."""

    __slots__ = ("is_authenticating", "pending_requests", "request_count")

    def __init__(self) -> None:
        self.pending_requests: deque[_Pending | None] = deque()
        self.request_count = 0
        self.is_authenticating = False


class Pairing:
    """Pairs the frames of all connections, event by event."""

    __slots__ = ("_queues", "_report")

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._queues: dict[int, _RequestQueue] = {}

    def process(self, event: Event) -> Sequence[Exchange]:
        """Return the exchanges that an event completes."""
        if isinstance(event, Frame):
            number = event.connection.number
            queue = self._queues.get(number)
            if queue is None:
                queue = self._queues[number] = _RequestQueue()
            if event.direction is Direction.REQUEST:
                return self._add_request(queue, event)
            return self._add_response(queue, event)
        if isinstance(event, Closed):
            queue = self._queues.pop(event.connection.number, None)
            return () if queue is None else _unanswered_exchanges(queue.pending_requests)
        return ()

    def finish(self) -> Iterator[Exchange]:
        """Yield the unanswered requests."""
        for queue in self._queues.values():
            yield from _unanswered_exchanges(queue.pending_requests)
        self._queues.clear()

    def _add_request(self, queue: _RequestQueue, frame: Frame) -> Sequence[Exchange]:
        if queue.is_authenticating:
            if not is_request(frame.body):
                queue.pending_requests.append(_TOKEN)
                return ()
            queue.is_authenticating = False
        try:
            header = request_header(frame.body)
        except ProtocolViolation as violation:
            self._report_problem(ProblemKind.MALFORMED, frame, violation.reason)
            return ()
        if not is_known(header.api_key, header.api_version):
            self._report_problem(
                ProblemKind.UNKNOWN_VERSION,
                frame,
                unknown_request_title(header.api_key, header.api_version),
            )
        pending = _Pending(frame, queue.request_count, header)
        queue.request_count += 1
        if header.api_key == _PRODUCE and not _expects_response(frame.body, header):
            return (_make_exchange(pending, None, 0),)
        queue.pending_requests.append(pending)
        return (
            ()
            if len(queue.pending_requests) <= MAX_PENDING_REQUESTS
            else _unanswered_exchanges((queue.pending_requests.popleft(),))
        )

    def _add_response(self, queue: _RequestQueue, frame: Frame) -> Sequence[Exchange]:
        pending_requests = queue.pending_requests
        if pending_requests and pending_requests[0] is _TOKEN:
            pending_requests.popleft()
            return ()
        if len(frame.body) < CORRELATION_BYTES:
            self._report_problem(
                ProblemKind.MALFORMED, frame, f"a response of {len(frame.body)} bytes"
            )
            return ()
        (correlation_id,) = _unpack_correlation_id(frame.body)
        index = _index_of(pending_requests, correlation_id)
        if index < 0:
            self._report_problem(ProblemKind.NO_REQUEST, frame, f"correlation id {correlation_id}")
            return ()
        unanswered = [pending_requests.popleft() for _ in range(index)]
        pending = pending_requests.popleft()
        assert pending is not None
        header = pending.header
        try:
            start = response_start(frame.body, header.api_key, header.api_version)
        except ProtocolViolation as violation:
            self._report_problem(ProblemKind.MALFORMED, frame, violation.reason)
            start = len(frame.body)
        if (header.api_key, header.api_version) in _HANDSHAKES_WITH_BARE_TOKENS:
            queue.is_authenticating = frame.body[start : start + 2] == _NO_ERROR
        exchange = _make_exchange(pending, frame, start)
        return (*_unanswered_exchanges(unanswered), exchange) if unanswered else (exchange,)

    def _report_problem(self, kind: ProblemKind, frame: Frame, detail: str) -> None:
        self._report(
            Problem(
                kind=kind,
                file=frame.file,
                offset=frame.offset,
                connection=str(frame.connection),
                detail=detail,
            )
        )


def _index_of(pending_requests: deque[_Pending | None], correlation_id: int) -> int:
    """Return the index of the request with this correlation id, -1 if there is none."""
    for index, pending in enumerate(pending_requests):
        if pending is not None and pending.header.correlation_id == correlation_id:
            return index
    return -1


def _expects_response(frame: bytes, header: Header) -> bool:
    """Whether a Produce request gets a response; True if it cannot be parsed."""
    try:
        parse = codec.request_parser(header.api_key, header.api_version)
        message, _ = parse(frame, header.start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return True
    return bool(message.acks)


def _unanswered_exchanges(
    pending_requests: Sequence[_Pending | None] | deque[_Pending | None],
) -> list[Exchange]:
    return [_make_exchange(pending, None, 0) for pending in pending_requests if pending is not None]


def _make_exchange(pending: _Pending, response: Frame | None, response_start: int) -> Exchange:
    frame, position, header = pending
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
