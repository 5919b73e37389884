"""Exchange: the account of one request and its answer, for the observers of a gateway.

`Gateway.subscribe` adds an observer. While there is none, no account is made, and requests of a
client that repeats them are not decoded.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from kafkalite.gateway.call import Call
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.catalogue import ROWS, entities_in_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.gateway.refusals import Refusal
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.message import Message

_MAX_SEARCHED_BYTES: Final = 32 * 1024
_MAX_SEARCHED_FIELDS: Final = 16 * 1024
"""Errors of an answer above both limits are not searched, because that would block all clients."""


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


class Exchange:
    """A request and its answer; it does not change any more when it has ended.

    An observer gets a request whose answer is pending twice: without the answer, and when it has
    ended. After that call, the gateway reuses the memory of records, and may free the parts of
    messages longer than 32 KiB; other messages stay as they are.
    """

    __slots__ = (
        "_observers", "_report_error", "answer_bytes", "answered_ms", "api_key", "client_id",
        "closing_reason", "context", "correlation_id", "fault", "received_ms", "refusals",
        "request", "request_bytes", "response", "response_version", "version", "was_pending",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        observers: Sequence[Observer],
        report_error: ReportError,
        received_ms: int = 0,
    ) -> None:
        self._observers = observers
        self._report_error = report_error
        context = call.context
        self.context: ConnectionContext = context
        """The connection, with node, listener and client."""
        self.client_id = call.client_id
        self.request_bytes = call.request_bytes
        self.version = call.api_version
        """The version of the request."""
        self.received_ms = received_ms
        """Time by the clock of the broker."""
        self.was_pending = False
        """Whether observers got this exchange before, without its answer."""
        self.refusals: list[Refusal] = []
        """Refusals of the request, and of parts of it, with explanations."""
        self.fault: str | None = None
        """The id of the fault that was applied."""
        self.answered_ms: int | None = None
        """Time of the end by the clock of the broker; None while the answer is pending."""
        self.api_key: int
        self.correlation_id = 0
        self.request: Any = None
        """The decoded request in the structure of the latest version; None if not decoded."""
        self.response: Any = None
        """The response in the structure of `response_version`; None without a response."""
        self.response_version = 0
        """The version of the response, which is 0 if that of the request is not served."""
        self.answer_bytes = 0
        """The size of the encoded response; 0 if the client gets none."""
        self.closing_reason: str | None = None
        """The reason why the connection is closed instead of an answer."""

    @property
    def node(self) -> Node:
        """The node that received the request."""
        return self.context.node

    @property
    def is_pending(self) -> bool:
        """Whether the answer is pending."""
        return self.answered_ms is None

    def names(self, entity: Entity) -> tuple[str, ...]:
        """Return the names of one kind in the request, each once; see `names_in_request`."""
        if self.request is None or self.api_key not in ROWS:
            return ()
        return names_in_request(self.node.image, self.api_key, entity, self.request)

    def error_codes(self) -> list[int] | None:
        """Return the distinct error codes of the response, None if it is too long to search."""
        from kafkalite.capture.reading.summary import scalar_fields  # noqa: PLC0415 - rarely used

        if self.response is None:
            return []
        is_long = self.answer_bytes > _MAX_SEARCHED_BYTES
        limit = _MAX_SEARCHED_FIELDS if is_long else None
        fields = scalar_fields(self.response)
        codes = dict.fromkeys(
            value for name, value in islice(fields, limit) if name.endswith("error_code") and value
        )
        return None if is_long and next(fields, None) is not None else [*codes]

    def without_messages(self) -> Exchange:
        """Return a copy without the request and the response."""
        copied = copy(self)
        copied.request = copied.response = None
        return copied

    # The gateway calls the other methods.

    def identify(
        self, api_key: int, response_version: int, correlation_id: int, request: Any
    ) -> Self:
        """Set what is known when the request has been read, and return the exchange."""
        self.api_key, self.response_version = api_key, response_version
        self.correlation_id, self.request = correlation_id, request
        return self

    def wait(self) -> None:
        """Give the exchange to the observers without the answer, which is pending."""
        self._publish()
        self.was_pending = True

    def end(self, response: Any = None, answer_bytes: int = 0) -> None:
        """Give the exchange to the observers with the answer, which may be none.

        Ignored if the connection was closed before.
        """
        if not self.is_pending:
            return
        self.response, self.answer_bytes = response, answer_bytes
        self.answered_ms = self.context.node.clock.now_ms()
        self._publish()

    def close(self, reason: str) -> None:
        """Give the exchange to the observers with the reason why there is no answer."""
        self.closing_reason = reason
        self.end()

    def _publish(self) -> None:
        for observe in self._observers:
            try:
                observe(self)
            except Exception as error:  # noqa: BLE001 - a bug must not affect clients
                self._report_error(self.api_key, error)


Observer = Callable[[Exchange], None]
"""Called with each exchange before the client gets the answer.

An exception is reported as a bug. The client and the other observers do not notice it.
"""

ReportError = Callable[[int, Exception], None]
"""(API key, exception of an observer): reports the exception."""


def observed(observers: Sequence[Observer], report_error: ReportError, call: Call) -> Call:
    """Return the context of a request whose exchange the observers get."""
    return Call(
        call.context,
        api_version=call.api_version,
        era=call.era,
        request_bytes=call.request_bytes,
        may_pause=call.may_pause,
        observed=Exchange(call, observers, report_error, call.node.clock.now_ms()),
    )
