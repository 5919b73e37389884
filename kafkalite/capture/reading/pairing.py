"""`Pairing`: pairs requests with their responses, which come in order on each connection.

A response belongs to the first open request with its correlation id. The open requests before that
one get no response, because a broker answers in order.

A capture can contain a response before its request. A response without an open request therefore
waits for one. It belongs to a later request with its correlation id only if it acknowledges bytes
of that request. Without this condition, a response whose request is not in the capture would get
the next request of a client that uses its correlation ids again. A waiting response is dropped when
a later response gets its request, or when a request follows of which it acknowledges nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Closed, Direction, Exchange, Frame, Problem, ProblemKind
from kafkalite.capture.reading.messages import (
    CORRELATION_BYTES,
    Header,
    is_known,
    is_request,
    request_header,
    response_start,
    unknown_request_title,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Event

MAX_PENDING_REQUESTS: Final = 100_000
"""Maximum pending requests of a connection; beyond it the oldest are treated as unanswered."""
MAX_PENDING_REQUEST_BYTES: Final = 64 << 20
"""Maximum bytes of the pending requests of all connections, without the newest request; beyond it,
the oldest of all connections are treated as unanswered."""
PENDING_ROW_BYTES: Final = 256
"""Memory of a pending request or waiting response that counts in addition to its bytes."""
MAX_WAITING_RESPONSES: Final = 1024
"""Maximum waiting responses of a connection; beyond it the oldest are dropped."""
MAX_WAITING_RESPONSE_BYTES: Final = 64 << 20
"""Maximum bytes of the waiting responses of all connections, without the newest response; beyond
it, the oldest of all connections are dropped."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_HANDSHAKES_WITH_BARE_TOKENS: Final = frozenset(((int(ApiKey.SASL_HANDSHAKE), 0),))
"""SaslHandshake v0, after which tokens of the mechanism follow in frames without headers."""
_NO_ERROR: Final = b"\0\0"
_unpack_correlation_id = Struct(">i").unpack_from
_SEQ_MASK: Final = 0xFFFFFFFF
_HALF_SEQ_RANGE: Final = 0x80000000


class _Pending(NamedTuple):
    """A request that has no response yet."""

    frame: Frame
    position: int
    header: Header


_TOKEN: Final = None
"""Queue entry of a bare token; the response to it is a bare token as well."""


class _RequestQueue:
    """The pending requests of one connection, and the number of requests that it has sent."""

    __slots__ = ("is_authenticating", "pending_requests", "request_count", "waiting_responses")

    def __init__(self) -> None:
        self.pending_requests: deque[_Pending | None] = deque()
        self.waiting_responses: deque[Frame] = deque()
        """Responses that were captured before their requests, or without them."""
        self.request_count = 0
        self.is_authenticating = False


class Pairing:
    """Pairs the frames of all connections, event by event."""

    __slots__ = (
        "_pending_bytes",
        "_pending_queues",
        "_queues",
        "_report",
        "_waiting_bytes",
        "_waiting_queues",
    )

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._queues: dict[int, _RequestQueue] = {}
        self._pending_bytes = self._waiting_bytes = 0
        self._pending_queues: OrderedDict[int, _RequestQueue] = OrderedDict()
        """Id of each pending request of all connections, oldest first → its queue."""
        self._waiting_queues: OrderedDict[int, _RequestQueue] = OrderedDict()
        """The same for the waiting responses."""

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
            return () if queue is None else self._finish(queue)
        return ()

    def finish(self) -> Iterator[Exchange]:
        """Yield the unanswered requests."""
        for queue in self._queues.values():
            yield from self._finish(queue)
        self._queues.clear()

    def _finish(self, queue: _RequestQueue) -> Sequence[Exchange]:
        self._drop_waiting(queue, len(queue.waiting_responses))
        return self._end_pending(queue, len(queue.pending_requests))

    def _add_request(self, queue: _RequestQueue, frame: Frame) -> Sequence[Exchange]:
        if queue.waiting_responses:
            self._drop_outdated(queue, frame.request_seq)
        if queue.is_authenticating:
            if not is_request(frame.body):
                if queue.waiting_responses:
                    self._take_waiting(queue, 0)
                else:
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
        if queue.waiting_responses:
            index = _index_of_response(queue.waiting_responses, pending)
            if index >= 0:
                unanswered = self._end_pending(queue, len(queue.pending_requests))
                response = self._take_waiting(queue, index)
                return (*unanswered, self._pair(queue, pending, response))
        queue.pending_requests.append(pending)
        size = _pending_size(frame)
        self._pending_bytes += size
        self._pending_queues[id(pending)] = queue
        return self._limit_pending(queue, size)

    def _add_response(self, queue: _RequestQueue, frame: Frame) -> Sequence[Exchange]:
        pending_requests = queue.pending_requests
        if pending_requests and pending_requests[0] is _TOKEN:
            pending_requests.popleft()
            return ()
        if len(frame.body) < CORRELATION_BYTES and not queue.is_authenticating:
            self._report_problem(
                ProblemKind.MALFORMED, frame, f"a response of {len(frame.body)} bytes"
            )
            return ()
        index = _index_of(pending_requests, frame)
        if index < 0 and frame.request_seq is None:
            self._report_without_request(frame)
            return ()
        if index < 0:
            self._wait(queue, frame)
            return ()
        if queue.waiting_responses:
            self._drop_waiting(queue, len(queue.waiting_responses))
        unanswered = self._end_pending(queue, index)
        pending = pending_requests.popleft()
        assert pending is not None
        self._pending_bytes -= _pending_size(pending.frame)
        del self._pending_queues[id(pending)]
        exchange = self._pair(queue, pending, frame)
        return (*unanswered, exchange) if unanswered else (exchange,)

    def _limit_pending(self, queue: _RequestQueue, newest_bytes: int) -> Sequence[Exchange]:
        """Return the requests above the limits as unanswered.

        They are the oldest of the connection if it has many, and the oldest of all connections if
        these have many bytes.
        """
        unanswered: list[Exchange] = []
        while len(queue.pending_requests) > MAX_PENDING_REQUESTS:
            unanswered += self._drop_oldest(queue)
        while (
            self._pending_bytes - newest_bytes > MAX_PENDING_REQUEST_BYTES
            and len(self._pending_queues) > 1
        ):
            unanswered += self._drop_oldest(next(iter(self._pending_queues.values())))
        return unanswered

    def _drop_oldest(self, queue: _RequestQueue) -> list[Exchange]:
        """Remove the first entry of a queue, and return it as unanswered if it is a request."""
        oldest = queue.pending_requests[0]
        if oldest is not None:
            detail = f"correlation id {oldest.header.correlation_id}"
            self._report_problem(ProblemKind.TOO_MANY_OPEN, oldest.frame, detail)
        return self._end_pending(queue, 1)

    def _end_pending(self, queue: _RequestQueue, count: int) -> list[Exchange]:
        """Remove the first pending requests, and return them as unanswered exchanges."""
        ended = [queue.pending_requests.popleft() for _ in range(count)]
        requests = [pending for pending in ended if pending is not None]
        self._pending_bytes -= sum(_pending_size(pending.frame) for pending in requests)
        for pending in requests:
            del self._pending_queues[id(pending)]
        return [_make_exchange(pending, None, 0) for pending in requests]

    def _pair(self, queue: _RequestQueue, pending: _Pending, response: Frame) -> Exchange:
        header, body = pending.header, response.body
        try:
            start = response_start(body, header.api_key, header.api_version)
        except ProtocolViolation as violation:
            self._report_problem(ProblemKind.MALFORMED, response, violation.reason)
            start = len(body)
        if (header.api_key, header.api_version) in _HANDSHAKES_WITH_BARE_TOKENS:
            queue.is_authenticating = body[start : start + 2] == _NO_ERROR
        return _make_exchange(pending, response, start)

    # -- responses that wait for their requests ------------------------------------------------

    def _wait(self, queue: _RequestQueue, response: Frame) -> None:
        queue.waiting_responses.append(response)
        newest_bytes = _pending_size(response)
        self._waiting_bytes += newest_bytes
        self._waiting_queues[id(response)] = queue
        if len(queue.waiting_responses) > MAX_WAITING_RESPONSES:
            self._drop_waiting(queue, 1)
        while self._waiting_bytes - newest_bytes > MAX_WAITING_RESPONSE_BYTES:
            self._drop_waiting(next(iter(self._waiting_queues.values())), 1)

    def _drop_outdated(self, queue: _RequestQueue, seq: int | None) -> None:
        """Drop the first responses that acknowledge nothing of a request at `seq`."""
        while (
            seq is not None
            and queue.waiting_responses
            and not acknowledges(queue.waiting_responses[0].request_seq, seq)
        ):
            self._drop_waiting(queue, 1)

    def _take_waiting(self, queue: _RequestQueue, index: int) -> Frame:
        """Remove and return a waiting response; the ones before it have no request."""
        self._drop_waiting(queue, index)
        return self._pop_waiting(queue)

    def _drop_waiting(self, queue: _RequestQueue, count: int) -> None:
        for _ in range(count):
            self._report_without_request(self._pop_waiting(queue))

    def _pop_waiting(self, queue: _RequestQueue) -> Frame:
        response = queue.waiting_responses.popleft()
        self._waiting_bytes -= _pending_size(response)
        del self._waiting_queues[id(response)]
        return response

    def _report_without_request(self, response: Frame) -> None:
        detail = f"correlation id {_correlation_id(response)}"
        self._report_problem(ProblemKind.NO_REQUEST, response, detail)

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


def _pending_size(frame: Frame) -> int:
    return len(frame.body) + PENDING_ROW_BYTES


def acknowledges(acknowledged: int | None, seq: int | None) -> bool:
    """Whether a response that acknowledges a number was sent after the bytes at `seq` arrived.

    False if one of them is unknown.
    """
    if acknowledged is None or seq is None:
        return False
    return 0 < (acknowledged - seq) & _SEQ_MASK < _HALF_SEQ_RANGE


def _correlation_id(response: Frame) -> int | None:
    """Return the correlation id of a response, None if it is too short."""
    if len(response.body) < CORRELATION_BYTES:
        return None
    correlation_id: int = _unpack_correlation_id(response.body)[0]
    return correlation_id


def _index_of_response(responses: deque[Frame], request: _Pending) -> int:
    """Return the index of the waiting response to a request, -1 if there is none."""
    seq = request.frame.request_seq
    for index, response in enumerate(responses):
        if _correlation_id(response) == request.header.correlation_id and acknowledges(
            response.request_seq, seq
        ):
            return index
    return -1


def _index_of(pending_requests: deque[_Pending | None], response: Frame) -> int:
    """Return the index of the request with a response's correlation id, -1 if there is none."""
    correlation_id = _correlation_id(response)
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
        answered_ns=None if response is None else max(response.at_ns, frame.at_ns),
        request=frame.body,
        request_start=header.start,
        response=None if response is None else response.body,
        response_start=response_start,
        file=frame.file,
        offset=frame.offset,
    )
