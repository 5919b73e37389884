"""Exchange: the account of one request and its answer, for the observers of a gateway.

`Gateway.subscribe` adds an observer. While there is none, no account is made, and requests of a
client that repeats them are not decoded.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.gateway.call import Call
from kafkalite.protocol.catalogue import ROWS, entities_in_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.gateway.refusals import Refusal
    from kafkalite.protocol.acl_operations import Entity

_MAX_SEARCHED_BYTES: Final = 32 * 1024
_MAX_SEARCHED_FIELDS: Final = 16 * 1024
"""Errors of an answer above both limits are not searched, because that would block all clients."""


class Exchange(NamedTuple):
    """A request and its answer; immutable.

    An observer gets a request whose answer is pending twice: without the answer, and with it. It
    may read the request and the response, and call methods, only until it returns: the gateway then
    reuses the memory of records, and may free the parts of long messages.
    """

    call: Call
    """The context of the request, with node, listener, client id, client and size."""
    api_key: int
    version: int
    """The version of the request."""
    response_version: int
    """The version of the response, which is 0 if the version of the request is not served."""
    correlation_id: int
    request: Any
    """The decoded request in the structure of the latest version; None if it was not decoded."""
    received_ms: int
    """Time by the clock of the broker."""
    was_pending: bool
    """Whether observers got this exchange before, without its answer."""
    answered_ms: int | None = None
    """Time of the answer by the clock of the broker; None while it is pending."""
    response: Any = None
    """The response in the structure of `version`; None without a response."""
    answer_bytes: int = 0
    """The size of the encoded response; 0 if the client gets none."""
    closing_reason: str | None = None
    """The reason why the connection is closed instead of an answer."""
    refusals: Sequence[Refusal] = ()
    """Refusals of the request, and of parts of it, with explanations."""
    fault: str | None = None
    """The id of the fault that was applied."""

    @property
    def is_pending(self) -> bool:
        """Whether the answer is pending."""
        return self.answered_ms is None

    def entities(self, entity: Entity) -> Iterator[Any]:
        """Yield the entities of one kind in the request; see `catalogue.entities_in_request`."""
        if self.request is not None and self.api_key in ROWS:
            yield from entities_in_request(self.api_key, entity, self.request)

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

    def request_json(self) -> dict[str, Any]:
        """Return the request with Kafka's names of fields; secrets are not removed."""
        return self._json(self.request, self.version, is_request=True)

    def response_json(self) -> dict[str, Any]:
        """Return the response with Kafka's names of fields; secrets are not removed."""
        return self._json(self.response, self.response_version, is_request=False)

    def _json(self, message: Any, version: int, *, is_request: bool) -> dict[str, Any]:
        from kafkalite.capture.formats.kafka_json import as_json  # noqa: PLC0415 - rarely used
        from kafkalite.capture.model import Direction  # noqa: PLC0415 - as above

        if message is None:
            return {}
        direction = Direction.REQUEST if is_request else Direction.RESPONSE
        return as_json(message, self.api_key, direction, version)


Observer = Callable[[Exchange], None]
"""Called with each exchange before the client gets the answer.

An exception is reported as a bug. The client and the other observers do not notice it.
"""

ReportError = Callable[[int, Exception], None]
"""(API key, exception of an observer): reports the exception."""


class ObservedRequest:
    """What happens to a request while it is served, for its `Exchange`."""

    __slots__ = (
        "_observers", "_received_ms", "_report_error", "_was_pending", "fault", "refusals",
    )  # fmt: skip

    def __init__(
        self, observers: Sequence[Observer], report_error: ReportError, received_ms: int
    ) -> None:
        self._observers = observers
        self._report_error = report_error
        self._received_ms = received_ms
        self._was_pending = False
        self.refusals: list[Refusal] = []
        self.fault: str | None = None

    def publish(
        self,
        call: Call,
        api_key: int,
        response_version: int,
        correlation_id: int,
        request: Any,
        **answer: Any,
    ) -> None:
        """Give the exchange to the observers; `answer` has the fields about the answer."""
        is_pending = not answer
        if not is_pending:
            answer["answered_ms"] = call.node.clock.now_ms()
        exchange = Exchange(
            call,
            api_key,
            call.api_version,
            response_version,
            correlation_id,
            request,
            self._received_ms,
            self._was_pending,
            refusals=tuple(self.refusals),
            fault=self.fault,
            **answer,
        )
        self._was_pending = is_pending
        for observe in self._observers:
            try:
                observe(exchange)
            except Exception as error:  # noqa: BLE001 - a bug must not affect clients
                self._report_error(api_key, error)


def observed(observers: Sequence[Observer], report_error: ReportError, call: Call) -> Call:
    """Return the context of a request whose exchange the observers get."""
    return Call(
        call.context,
        api_version=call.api_version,
        era=call.era,
        request_bytes=call.request_bytes,
        may_pause=call.may_pause,
        observed=ObservedRequest(observers, report_error, call.node.clock.now_ms()),
    )
