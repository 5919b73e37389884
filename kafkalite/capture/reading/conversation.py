"""`Conversation`: splits both directions of a connection into frames, and finds the client side.

The side that opened the connection is the client. If the capture does not contain the opening, a
side whose endpoint is a known broker is the broker. Otherwise the side that sends requests is the
client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import (
    Closed,
    Connection,
    Direction,
    Frame,
    Gap,
    Opened,
    Problem,
    ProblemKind,
)
from kafkalite.capture.reading.framing import MAX_FRAME_BYTES, Framer, Verdict
from kafkalite.capture.reading.kafka_detection import (
    RequestFinder,
    ResponseFinder,
    check_first_request,
    is_tls,
)
from kafkalite.capture.reading.messages import CORRELATION_BYTES
from kafkalite.capture.reading.reassembly import MAX_WAIT_NS, MissingBytes, Piece
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.wire.headers import HEADER_BYTES, unpack_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.formats.comments import InterfaceNote
    from kafkalite.capture.model import Endpoint, Event
    from kafkalite.capture.reading.framing import CompleteFrame, PartialFrame
    from kafkalite.capture.reading.reassembly import StreamItems

MAX_UNDECIDED_BYTES: Final = 256 * 1024
"""Maximum number of bytes of a connection that are buffered until the client side is known."""
MAX_PENDING_REQUESTS: Final = 1024
"""Maximum number of stored requests without a response; those with acks=0 never get one."""

_MAX_FIRST_BYTES: Final = 2048
_unpack_correlation_id = Struct(">i").unpack_from


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureContext:
    """Settings and state that all connections of a capture share."""

    report: Reporter
    ports: frozenset[int] = frozenset()
    """Ports on which brokers listen, given by the user."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    brokers: set[Endpoint] = field(default_factory=set)
    """Endpoints that were identified as brokers."""
    connection_numbers: Iterator[int] = field(default_factory=count)


class PartialFrames(NamedTuple):
    """The incomplete frames of a conversation, by side; None if frame boundaries are unknown."""

    client_side: int
    sides: tuple[PartialFrame | None, PartialFrame | None]


class Conversation:
    """Both directions of one connection; `events` are those that the caller has not taken yet."""

    __slots__ = (
        "_buffered",
        "_buffered_bytes",
        "_bytes_to_skip",
        "_client_id",
        "_client_side",
        "_connection",
        "_context",
        "_endpoints",
        "_first_bytes",
        "_first_position",
        "_framers",
        "_gaps",
        "_is_resumed",
        "_latest_ns",
        "_note",
        "_opened_ns",
        "_pending",
        "_probes",
        "_request_finder",
        "events",
        "is_rejected",
    )

    def __init__(
        self, endpoints: tuple[Endpoint, Endpoint], note: InterfaceNote, context: CaptureContext
    ) -> None:
        self.events: list[Event] = []
        self._endpoints = endpoints
        self._note = note
        self._context = context
        self._client_side = self._find_known_client()
        self._opened_ns: int | None = None
        self._connection: Connection | None = None
        self.is_rejected = False
        """Whether the connection is not Kafka; its bytes are ignored then."""
        self._is_resumed = False
        self._bytes_to_skip = [0, 0]
        self._buffered: list[tuple[int, Piece | MissingBytes]] | None = []
        self._buffered_bytes = 0
        self._first_bytes = [b"", b""]
        self._gaps: list[tuple[Direction, int]] = []
        self._pending: dict[int, tuple[int, int]] = {}
        self._client_id = b""
        self._request_finder = RequestFinder(context.max_frame_bytes)
        self._probes: list[Framer] | None = None
        self._framers: list[Framer] = []
        self._first_position: tuple[str, int] | None = None
        self._latest_ns = 0

    def _find_known_client(self) -> int | None:
        """Return the side whose peer is a known broker; None unless exactly one is a broker."""
        context = self._context
        is_broker = [
            endpoint in context.brokers or endpoint.port in context.ports
            for endpoint in self._endpoints
        ]
        return is_broker.index(False) if is_broker.count(True) == 1 else None

    @property
    def undecided_since_ns(self) -> int | None:
        """Time of the first buffered bytes, while the client side is unknown."""
        return self._buffered[0][1].at_ns if self._buffered else None

    def open(self, client_side: int, at_ns: int) -> None:
        """Note the opening of the connection: the client side, and the time."""
        if self._opened_ns is None and not self._first_bytes[0] and not self._first_bytes[1]:
            self._client_side = client_side
            self._opened_ns = at_ns

    def resume(self, client_side: int | None, opened_ns: int) -> None:
        """Note that the capture continues a connection from an earlier file."""
        if self._buffered == [] and not any(self._first_bytes):
            self._opened_ns = opened_ns
            self._is_resumed = True
            if client_side is not None:
                self._client_side = client_side

    def skip(self, side: int, size: int) -> None:
        """Note that one side continues within a frame that began in another file."""
        self._bytes_to_skip[side] = size
        if self._framers:
            self._framers[side != self._client_side].skip(size)

    def process(self, side: int, items: StreamItems) -> None:
        """Process more bytes of one side."""
        for item in items:
            if self.is_rejected:
                return
            if self._buffered is not None:
                self._buffer(side, item)
            else:
                self._process(side, item)

    def partial_frames(self) -> PartialFrames | None:
        """Return the incomplete frame of each side; None if the client side is unknown."""
        if self.is_rejected or self._client_side is None or not self._framers:
            return None
        requests, responses = (framer.partial_frame for framer in self._framers)
        sides = (requests, responses) if self._client_side == 0 else (responses, requests)
        return PartialFrames(self._client_side, sides)

    def decide_client_side(self) -> None:
        """Decide the client side from the available bytes."""
        if self._buffered is None or self.is_rejected:
            return
        if self._client_side is None:
            # Servers usually have lower ports than clients.
            self._client_side = int(self._endpoints[0].port < self._endpoints[1].port)
        self._start_framing()

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """Handle the end of the connection or of the capture."""
        if not self.is_rejected and self._connection is None and any(self._first_bytes):
            self._reject(self._reason_without_request())
        if self._connection is not None and is_closed:
            # The packet that completes a reordered connection can be earlier than its last frame.
            self._advance_time(at_ns)
            self.events.append(Closed(self._latest_ns, self._connection))

    # -- which side is the client ------------------------------------------------------------

    def _buffer(self, side: int, item: Piece | MissingBytes) -> None:
        assert self._buffered is not None
        self._buffered.append((side, item))
        if isinstance(item, Piece):
            self._buffered_bytes += len(item.data)
            if len(self._first_bytes[side]) < _MAX_FIRST_BYTES:
                self._first_bytes[side] += item.data[:_MAX_FIRST_BYTES]
            if self._first_position is None:
                self._first_position = (item.file, item.offset)
        if self._is_resumed and self._client_side is not None:
            self._start_framing()
        elif self._opened_ns is not None:
            self._decide_from_start()
        elif self._client_side is not None:
            self._start_framing()
        else:
            self._probe(side, item)
        if self._buffered and self._buffered_bytes > MAX_UNDECIDED_BYTES:
            if self._opened_ns is None:
                self.decide_client_side()
            else:
                self._reject("no request from the client")

    def _decide_from_start(self) -> None:
        """Decide from the first request whether the connection is Kafka.

        If bytes of the first request are missing, the connection is assumed to be Kafka. At a port
        that the user gave, bytes that are no request are skipped.
        """
        assert self._buffered is not None
        first_bytes = b""
        for side, item in self._buffered:
            if side != self._client_side:
                continue
            if isinstance(item, MissingBytes):
                self._start_framing()
                return
            first_bytes += item.data[:_MAX_FIRST_BYTES]
        verdict = check_first_request(first_bytes, self._context.max_frame_bytes)
        if verdict is Verdict.YES:
            self._start_framing()
        elif verdict is Verdict.NO:
            if self._is_at_given_port and not is_tls(first_bytes):
                self._start_framing(is_synchronized=False)
            else:
                self._reject("the first bytes are not a request")

    @property
    def _is_at_given_port(self) -> bool:
        return any(endpoint.port in self._context.ports for endpoint in self._endpoints)

    def _probe(self, side: int, item: Piece | MissingBytes) -> None:
        """Search for requests on both sides."""
        if self._probes is None:
            self._probes = [
                self._new_framer(self._request_finder, is_synchronized=False)
                for _ in self._endpoints
            ]
        probe = self._probes[side]
        if isinstance(item, MissingBytes):
            probe.skip_missing(item.size)
            return
        probe.feed(item)
        if probe.is_synchronized:
            self._client_side = side
            self._start_framing()

    def _start_framing(self, *, is_synchronized: bool = True) -> None:
        """Process the buffered bytes, now that the client side is known.

        Without `is_synchronized`, the first bytes are not the start of a frame.
        """
        buffered, self._buffered = self._buffered, None
        self._probes = None
        is_from_start = self._opened_ns is not None and is_synchronized
        responses = ResponseFinder(self._pending, self._context.max_frame_bytes)
        assert self._client_side is not None
        self._framers = [
            self._new_framer(self._request_finder, is_synchronized=is_from_start),
            self._new_framer(responses, is_synchronized=is_from_start),
        ]
        for side, size in enumerate(self._bytes_to_skip):
            self._framers[side != self._client_side].skip(size)
        for side, item in buffered or ():
            self._process(side, item)

    def _new_framer(
        self, finder: RequestFinder | ResponseFinder, *, is_synchronized: bool
    ) -> Framer:
        return Framer(
            finder,
            is_synchronized=is_synchronized,
            max_frame_bytes=self._context.max_frame_bytes,
            report=self._report_malformed,
        )

    def _reject(self, reason: str) -> None:
        self.is_rejected = True
        self._buffered = None
        self._probes = None
        self._framers = []
        if any(is_tls(first_bytes) for first_bytes in self._first_bytes):
            self._report(ProblemKind.ENCRYPTED, "TLS")
        else:
            self._report(ProblemKind.NOT_KAFKA, reason)

    def _reason_without_request(self) -> str:
        return (
            "contains no request" if self._opened_ns is None else "the first request is incomplete"
        )

    # -- frames ----------------------------------------------------------------------------

    def _process(self, side: int, item: Piece | MissingBytes) -> None:
        direction = Direction.REQUEST if side == self._client_side else Direction.RESPONSE
        framer = self._framers[direction]
        if isinstance(item, MissingBytes):
            self._add_gap(direction, item)
            framer.skip_missing(item.size)
            return
        for frame in framer.feed(item):
            self._add_frame(direction, frame)

    def _add_frame(self, direction: Direction, frame: CompleteFrame) -> None:
        connection = self._connection or self._create_connection(frame)
        body, at_ns, file, offset, last_piece = frame
        self._advance_time(at_ns)
        if direction is Direction.REQUEST:
            self._track_request(body)
            request_seq = last_piece.seq
        else:
            self._track_response(body)
            request_seq = last_piece.acknowledged
        self.events.append(Frame(at_ns, connection, direction, body, file, offset, request_seq))

    def _advance_time(self, at_ns: int) -> None:
        """Set the latest time, which does not decrease unless the clock was set back."""
        if not 0 <= self._latest_ns - at_ns < MAX_WAIT_NS:
            self._latest_ns = at_ns

    def _create_connection(self, frame: CompleteFrame) -> Connection:
        """Create the connection at its first frame."""
        assert self._client_side is not None
        broker = self._endpoints[1 - self._client_side]
        self._context.brokers.add(broker)
        self._connection = connection = Connection(
            number=next(self._context.connection_numbers),
            client=self._endpoints[self._client_side],
            broker=broker,
            opened_ns=self._opened_ns,
            node_id=self._note.node,
            listener=self._note.listener,
        )
        self._first_position = (frame.file, frame.offset)
        if self._opened_ns is None:
            self._report(
                ProblemKind.MID_CONNECTION, "the start of the connection is not in the capture"
            )
        self.events.append(Opened(frame.at_ns, connection))
        self.events += [
            Gap(frame.at_ns, connection, direction, size) for direction, size in self._gaps
        ]
        return connection

    def _track_request(self, body: bytes) -> None:
        if len(body) < HEADER_BYTES:
            return
        api_key_and_version, correlation_id, size = unpack_header(body)
        pending = self._pending
        pending[correlation_id] = (api_key_and_version >> 16, api_key_and_version & 0xFFFF)
        if len(pending) > MAX_PENDING_REQUESTS:
            del pending[next(iter(pending))]
        client_id = body[HEADER_BYTES : HEADER_BYTES + size] if size > 0 else b""
        if client_id != self._client_id:
            self._client_id = client_id
            self._request_finder.client_ids = {client_id}

    def _track_response(self, body: bytes) -> None:
        pending = self._pending
        correlation_id = _unpack_correlation_id(body)[0] if len(body) >= CORRELATION_BYTES else None
        if correlation_id in pending:
            # Brokers answer in order, so earlier requests will get no response.
            while (first := next(iter(pending))) != correlation_id:
                del pending[first]
            del pending[first]

    def _add_gap(self, direction: Direction, gap: MissingBytes) -> None:
        self._report(ProblemKind.GAP, f"{gap.size} bytes of {direction.name.lower()}s are missing")
        if self._connection is None:
            self._gaps.append((direction, gap.size))
        else:
            self.events.append(Gap(gap.at_ns, self._connection, direction, gap.size))

    # -- problems ---------------------------------------------------------------------------

    def _report_malformed(self, detail: str) -> None:
        if self._probes is None:
            self._report(ProblemKind.MALFORMED, detail)

    def _report(self, kind: ProblemKind, detail: str) -> None:
        client = self._client_side or 0
        file, offset = self._first_position or ("", None)
        name = f"{self._endpoints[client]} > {self._endpoints[1 - client]}"
        self._context.report(
            Problem(kind=kind, file=file, offset=offset, connection=name, detail=detail)
        )
