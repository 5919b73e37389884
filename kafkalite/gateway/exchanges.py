"""Exchange: the account of one request and its answer, for the observers of a gateway.

`Gateway.subscribe` adds an observer. While there is none, no account is made. An account has the
bytes of the messages, which are decoded when an observer asks for their fields.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.catalogue import ROWS, entities_in_request
from kafkalite.wire.frames import LENGTH_BYTES
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields, unpack_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.gateway.refusals import Refusal
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import Pieces

LONG_BYTES: Final = 32 * 1024
"""An exchange does not have the bytes of longer messages."""

_MAX_SEARCHED_FIELDS: Final = 16 * 1024
"""Errors of a long answer with more fields are not searched, because that would block clients."""

_unpack_header = Struct(">hhi").unpack_from


def names_in_request(
    image: MetadataImage, key: int, entity: Entity, request: Message
) -> tuple[str, ...]:
    """Return the names of one kind in a request, each once; topics may be given by their ids."""
    names = dict.fromkeys(each for each in entities_in_request(key, entity, request) if each)
    if entity is Entity.TOPIC:
        for topic_id in entities_in_request(key, Entity.TOPIC_ID, request):
            if topic_id in image.topics_by_id:
                names[image.topics_by_id[topic_id].name] = None
    return tuple(names)


class Details:
    """What most exchanges do not have: long messages, and what happened to the request."""

    __slots__ = (
        "answer_bytes", "closing_reason", "fault", "long_request", "long_response", "refusals",
        "request_bytes", "was_pending",
    )  # fmt: skip

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.long_request: Any = None
        self.answer_bytes = 0
        self.long_response: Any = None
        self.was_pending = False
        self.refusals: list[Refusal] = []
        self.fault: str | None = None
        self.closing_reason: str | None = None


class Exchange:
    """A request and its answer; it does not change any more when it has ended.

    An observer gets a request whose answer is pending twice: without the answer, and when it has
    ended. After each of these calls, the fields of messages above LONG_BYTES are not available any
    more.
    """

    __slots__ = (
        "_observers", "answer", "answered_ms", "client_id", "context", "details", "frame",
        "received_ms",
    )  # fmt: skip

    def __init__(
        self, observers: Observers, context: ConnectionContext, frame: bytes, received_ms: int
    ) -> None:
        self._observers = observers
        self.context = context
        """The connection, with node, listener and client."""
        self.client_id = context.client_id
        self.frame = frame
        """The request as bytes without its length; only the header if the request is long."""
        self.received_ms = received_ms
        """Time by the clock of the broker."""
        self.answered_ms: int | None = None
        """Time of the end by the clock of the broker; None while the answer is pending."""
        self.answer = b""
        """The answer as bytes with its length; empty if it is long, or if there is none."""
        self.details: Details | None = None
        """What few exchanges have; None if this one has none of it."""

    @property
    def node(self) -> Node:
        """The node that received the request."""
        return self.context.node

    @property
    def is_pending(self) -> bool:
        """Whether the answer is pending."""
        return self.answered_ms is None

    @property
    def is_long(self) -> bool:
        """Whether a message is longer than LONG_BYTES, so that its fields do not last."""
        return self.request_bytes > LONG_BYTES or self.answer_bytes > LONG_BYTES

    @property
    def request_bytes(self) -> int:
        """The size of the request."""
        return len(self.frame) if self.details is None else self.details.request_bytes

    @property
    def answer_bytes(self) -> int:
        """The size of the encoded response; 0 if the client gets none."""
        return len(self.answer) or (0 if self.details is None else self.details.answer_bytes)

    @property
    def was_pending(self) -> bool:
        """Whether observers got this exchange before, without its answer."""
        return self.details is not None and self.details.was_pending

    @property
    def refusals(self) -> Sequence[Refusal]:
        """Refusals of the request, and of parts of it, with explanations."""
        return () if self.details is None else self.details.refusals

    @property
    def fault(self) -> str | None:
        """The id of the fault that was applied."""
        return None if self.details is None else self.details.fault

    @property
    def closing_reason(self) -> str | None:
        """The reason why the connection is closed instead of an answer."""
        return None if self.details is None else self.details.closing_reason

    @property
    def api_key(self) -> int:
        """The API of the request."""
        return self._header[0]

    @property
    def version(self) -> int:
        """The version of the request."""
        return self._header[1]

    @property
    def correlation_id(self) -> int:
        """The correlation id of the request."""
        return self._header[2]

    @property
    def _header(self) -> tuple[int, int, int]:
        header: tuple[int, int, int] = _unpack_header(self.frame)
        return header

    @property
    def request(self) -> Any:
        """The decoded request in the structure of its version; None if it cannot be decoded."""
        if self.details is not None and self.details.request_bytes > LONG_BYTES:
            return self.details.long_request
        key, version, _ = self._header
        return _decode(codec.request_parser, key, version, self.frame, _start_of_request)

    @property
    def response(self) -> Any:
        """The decoded response in the structure of `response_version`; None without a response."""
        if self.details is not None and self.details.answer_bytes > LONG_BYTES:
            return self.details.long_response
        from kafkalite.capture.reading.messages import response_start  # noqa: PLC0415 - rarely used

        content = self.answer[LENGTH_BYTES:]
        return _decode(
            codec.response_parser, self.api_key, self.response_version, content, response_start
        )

    @property
    def response_version(self) -> int:
        """The version of the response, which is 0 if that of the request is not served."""
        from kafkalite.capture.reading.messages import response_version  # noqa: PLC0415 - as above

        key, version, _ = self._header
        return response_version(self.answer[LENGTH_BYTES:], key, version)

    def names(self, entity: Entity) -> tuple[str, ...]:
        """Return the names of one kind in the request, each once; see `names_in_request`."""
        key = self.api_key
        request = self.request if key in ROWS else None
        return () if request is None else names_in_request(self.node.image, key, entity, request)

    def error_codes(self) -> list[int] | None:
        """Return the distinct error codes of the response, None if it is too long to search."""
        from kafkalite.capture.reading.summary import scalar_fields  # noqa: PLC0415 - rarely used

        response = self.response
        if response is None:
            return []
        is_long = self.answer_bytes > LONG_BYTES
        limit = _MAX_SEARCHED_FIELDS if is_long else None
        fields = scalar_fields(response)
        codes = dict.fromkeys(
            value for name, value in islice(fields, limit) if name.endswith("error_code") and value
        )
        return None if is_long and next(fields, None) is not None else [*codes]

    # The gateway calls the other methods.

    def note_refusal(self, refusal: Refusal) -> None:
        """Add the refusal of the request, or of a part of it."""
        self._own_details().refusals.append(refusal)

    def note_fault(self, fault_id: str) -> None:
        """Set the fault that was applied."""
        self._own_details().fault = fault_id

    def note_long_request(self, size_bytes: int, request: Any) -> None:
        """Set the size of a long request, and the decoded request."""
        details = self._own_details()
        details.request_bytes, details.long_request = size_bytes, request

    def wait(self) -> None:
        """Give the exchange to the observers without the answer, which is pending."""
        self._publish()
        self._own_details().was_pending = True

    def end(self, pieces: Pieces, answer_bytes: int, response: Any = None) -> None:
        """Give the exchange to the observers with the answer, whose bytes are `pieces`.

        `response` is the decoded answer, for the case that it is long. Ignored if the connection
        was closed before.
        """
        if self.answered_ms is not None:
            return
        if answer_bytes > LONG_BYTES:
            details = self._own_details()
            details.answer_bytes, details.long_response = answer_bytes, response
        else:
            self.answer = b"".join(pieces)
        context, received_ms = self.context, self.received_ms
        context.exchange = None
        observers = self._observers
        now_ms = observers.batch_ms
        if not now_ms:
            now_ms = context.node.clock.now_ms()
            if observers.batch_ms is not None:
                observers.batch_ms = now_ms
        # Usually they are equal, and one number needs less memory than two.
        self.answered_ms = received_ms if now_ms == received_ms else now_ms
        self._publish()

    def close(self, reason: str) -> None:
        """Give the exchange to the observers with the reason why there is no answer."""
        if self.answered_ms is None:
            self._own_details().closing_reason = reason
            self.end([], 0)

    def _own_details(self) -> Details:
        if self.details is None:
            self.details = Details(len(self.frame))
        return self.details

    def _publish(self) -> None:
        observers = self._observers
        for observe in observers.functions:
            try:
                observe(self)
            except Exception as error:  # noqa: BLE001 - a bug must not affect clients
                observers.report_error(self.api_key, error)
        if self.details is not None:
            self.details.long_request = self.details.long_response = None


def _decode(
    find_parser: Callable[[int, int], Callable[[bytes, int, int], tuple[Any, int]]],
    key: int,
    version: int,
    frame: bytes,
    find_start: Callable[[bytes, int, int], int],
) -> Any:
    """Return a decoded message; None for bytes that are not one of a known version."""
    try:
        parse = find_parser(key, version)
        return parse(frame, find_start(frame, key, version), len(frame))[0]
    except (KeyError, *codec.PARSE_ERRORS):
        return None


def _start_of_request(frame: bytes, key: int, version: int) -> int:
    """Return the position of the body of a request."""
    client_id_length = unpack_header(frame, 0)[2]
    start = HEADER_BYTES + max(0, client_id_length)
    return (
        skip_tagged_fields(frame, start, len(frame)) if codec.is_flexible(key, version) else start
    )


Observer = Callable[[Exchange], None]
"""Called with each exchange before the client gets the answer.

An exception is reported as a bug. The client and the other observers do not notice it.
"""


class Observers:
    """Makes the exchanges of requests for some observers."""

    __slots__ = ("_received_ms", "batch_ms", "functions", "report_error")

    def __init__(
        self, functions: Sequence[Observer], report_error: Callable[[int, Exception], None]
    ) -> None:
        """`report_error` is called with an API key and the exception of an observer."""
        self.functions: Final = tuple(functions)
        self.report_error: Final = report_error
        self._received_ms = 0
        self.batch_ms: int | None = None
        """The time of the answers of batched requests, which are encoded together.

        0 before the first of them; None while there is no batch.
        """

    def begin(  # noqa: PLR0917 - called for every request
        self,
        context: ConnectionContext,
        buffer: bytearray,
        start: int,
        end: int,
        request: Any,
        is_in_batch: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> Exchange:
        """Return the exchange of the request between `start` and `end`, which was decoded.

        With `is_in_batch`, it has arrived together with the previous one.
        """
        size = end - start
        is_long = size > LONG_BYTES
        frame = bytes(buffer[start : start + HEADER_BYTES if is_long else end])
        if not is_in_batch:
            self._received_ms = context.node.clock.now_ms()
        exchange = Exchange(self, context, frame, self._received_ms)
        if is_long:
            exchange.note_long_request(size, request)
        context.exchange = exchange
        return exchange
