"""RequestLog: the latest requests of clients and their answers, with all their fields."""

from __future__ import annotations

from collections import OrderedDict, deque
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.formats.kafka_json import as_json
from kafkalite.capture.model import Direction
from kafkalite.capture.reading.summary import scalar_fields
from kafkalite.capture.recording.redaction import SECRETS_OF_REQUESTS, SECRETS_OF_RESPONSES
from kafkalite.gateway.exchanges import LONG_BYTES
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.acl_operations import Entity
from kafkalite.storage.batch import HEADER_SIZE, MAGIC_2, BatchView
from kafkalite.storage.compression import CODECS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.gateway.exchanges import Exchange

DEFAULT_LOGGED_REQUESTS: Final = 10_000
MAX_LOGGED_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of the messages in a log."""

_MAX_FIELDS: Final = 4 * 1024
"""Messages that are longer than LONG_BYTES and have more fields are logged without their fields.

The fields of a message are copied at once, while all clients wait."""
_REMOVED_TOGETHER: Final = 64
"""Requests above the limit that are removed together, which takes less time than one by one."""
_MAX_BATCHES: Final = 16
"""The maximum number of batches of a partition that are described."""


class _Copy:
    """The fields of the messages of an exchange with a long one."""

    __slots__ = ("errors", "names", "request", "response")

    def __init__(self, exchange: Exchange) -> None:
        self.names = {entity: exchange.names(entity) for entity in NAMED_ENTITIES}
        self.request = _request_fields(exchange)
        self.response: dict[str, Any] | None = None
        self.errors: tuple[int, ...] = ()


class LoggedRequest(NamedTuple):
    """A request, and its answer if there is one."""

    number: int | None
    """Requests are numbered from 1 in the order in which they end; None before the end."""
    exchange: Exchange
    copy: _Copy | None = None
    """The fields of its messages if one of them is long."""

    @property
    def request(self) -> dict[str, Any]:
        """The fields of the request with Kafka's names, without secrets.

        Fields with records have their size, and a description of the first batches.
        """
        return _request_fields(self.exchange) if self.copy is None else self.copy.request

    @property
    def response(self) -> dict[str, Any] | None:
        """The fields of the response, as those of the request; None without a response."""
        return _response_fields(self.exchange) if self.copy is None else self.copy.response

    def error_codes(self) -> tuple[int, ...]:
        """Return the distinct error codes of the response; none of a response with many fields."""
        return _error_codes(self.exchange) if self.copy is None else self.copy.errors

    def names(self, entity: Entity) -> tuple[str, ...]:
        """Return the entities of a kind that the request names, of NAMED_ENTITIES.

        The topics include those that it names by id, if they exist.
        """
        return self.exchange.names(entity) if self.copy is None else self.copy.names[entity]


class RequestLog:
    """The latest requests of all clients: at most `limit`, and of at most MAX_LOGGED_BYTES."""

    def __init__(self, limit: int = DEFAULT_LOGGED_REQUESTS) -> None:
        self.limit = limit
        self._removed = 0
        """The number of requests that have ended and are not in the log any more."""
        self._removal_length = limit + _REMOVED_TOGETHER
        self.watchers = Watchers()
        """Are notified of each request and each later answer that is added."""
        self._ended: deque[Exchange] = deque()
        self._pending: OrderedDict[Exchange, _Copy | None] = OrderedDict()
        self._copies: dict[Exchange, _Copy] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return min(len(self._ended), self.limit) + len(self._pending)

    @property
    def last_number(self) -> int:
        """The number of the last request that has ended."""
        return self._removed + len(self._ended)

    def observe(self, exchange: Exchange) -> None:
        """Add an exchange, or the answer to one whose answer was pending."""
        if exchange.answered_ms is None:
            self._pending[exchange] = _Copy(exchange) if exchange.is_long else None
            self._bytes += exchange.request_bytes
            self._remove_oldest()
        elif exchange.details is not None:
            self._complete(exchange)
            self._ended.append(exchange)
            self._bytes += exchange.request_bytes + exchange.answer_bytes
            self._remove_oldest()
        else:  # for speed: as above, and the oldest are removed a few at a time
            self._ended.append(exchange)
            self._bytes += len(exchange.frame) + len(exchange.answer)
            if len(self._ended) > self._removal_length or self._bytes > MAX_LOGGED_BYTES:
                self._remove_oldest()
        self.watchers.notify()

    def _complete(self, exchange: Exchange) -> None:
        """Remove an exchange from the pending ones, and copy its fields if a message is long."""
        copy = None
        if exchange in self._pending:
            copy = self._pending.pop(exchange)
            self._bytes -= exchange.request_bytes
        if exchange.is_long:
            copy = copy or _Copy(exchange)
            copy.response, copy.errors = _response_fields(exchange), _error_codes(exchange)
            self._copies[exchange] = copy

    def _remove_oldest(self) -> None:
        """Remove requests until the log is within its limits, those that have ended first."""
        ended, pending = self._ended, self._pending
        while len(ended) > self.limit or (self._bytes > MAX_LOGGED_BYTES and len(ended) > 1):
            oldest = ended.popleft()
            self._removed += 1
            if oldest.details is None:
                self._bytes -= len(oldest.frame) + len(oldest.answer)
            else:
                self._bytes -= oldest.request_bytes + oldest.answer_bytes
                self._copies.pop(oldest, None)
        while len(pending) > self.limit or (self._bytes > MAX_LOGGED_BYTES and len(pending) > 1):
            oldest, _ = pending.popitem(last=False)
            self._bytes -= oldest.request_bytes

    def clear(self) -> int:
        """Remove all requests that have ended, and return their number."""
        count = min(len(self._ended), self.limit)
        self._removed += len(self._ended)
        self._ended.clear()
        self._copies.clear()
        self._bytes = sum(exchange.request_bytes for exchange in self._pending)
        return count

    def after(self, number: int) -> Sequence[LoggedRequest]:
        """Return the requests that ended after the one with this number, oldest first."""
        first_number = self._removed + 1
        start = max(0, number + 1 - first_number, len(self._ended) - self.limit)
        return [
            LoggedRequest(first_number + position, exchange, self._copies.get(exchange))
            for position, exchange in enumerate(islice(self._ended, start, None), start)
        ]

    def pending(self) -> Sequence[LoggedRequest]:
        """Return the requests whose answers are pending, oldest first."""
        return [LoggedRequest(None, exchange, copy) for exchange, copy in self._pending.items()]


NAMED_ENTITIES: Final = (Entity.GROUP, Entity.TOPIC, Entity.TRANSACTIONAL_ID)


def _request_fields(exchange: Exchange) -> dict[str, Any]:
    size, version = exchange.request_bytes, exchange.version
    return request_fields(exchange.request, exchange.api_key, version, size)


def request_fields(
    request: Any,  # noqa: ANN401 - any message, or None
    api_key: int,
    version: int,
    size_bytes: int,
) -> dict[str, Any]:
    """Return the fields of a request of a size, as `LoggedRequest.request` has them."""
    message = _without_secrets(request, SECRETS_OF_REQUESTS.get(api_key))
    return _fields(message, api_key, Direction.REQUEST, version, size_bytes)


def _response_fields(exchange: Exchange) -> dict[str, Any] | None:
    response = exchange.response
    if response is None:
        return None
    size, version = exchange.answer_bytes, exchange.response_version
    return response_fields(response, exchange.api_key, version, size)


def response_fields(
    response: Any,  # noqa: ANN401 - any message
    api_key: int,
    version: int,
    size_bytes: int,
) -> dict[str, Any]:
    """Return the fields of a response of a size, as `LoggedRequest.response` has them."""
    message = _without_secrets(response, SECRETS_OF_RESPONSES.get(api_key))
    return _fields(message, api_key, Direction.RESPONSE, version, size_bytes)


def _error_codes(exchange: Exchange) -> tuple[int, ...]:
    return tuple(exchange.error_codes() or ())


def _without_secrets(message: Any, overwrite: Callable[[Any], int] | None) -> Any:  # noqa: ANN401 - any message
    """Return a message, or a copy of it whose secrets are overwritten."""
    if overwrite is None or message is None:
        return message
    copied = deepcopy(message)
    overwrite(copied)
    return copied


def _fields(
    message: Any,  # noqa: ANN401 - as above
    api_key: int,
    direction: Direction,
    version: int,
    size_bytes: int,
) -> dict[str, Any]:
    if message is None:
        return {}
    if size_bytes > LONG_BYTES and any(islice(scalar_fields(message), _MAX_FIELDS, None)):
        return {"omitted": f"more than {_MAX_FIELDS} fields in {size_bytes} bytes"}
    return as_json(message, api_key, direction, version, records=_described_records)


def _described_records(name: str, records: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a buffer
    """Return the size of records, and a description of their first batches."""
    batches: list[dict[str, Any]] = []
    view = memoryview(records or b"")
    position = 0
    while len(view) - position >= HEADER_SIZE and len(batches) < _MAX_BATCHES:
        batch = BatchView(view[position:])
        if batch.magic != MAGIC_2 or batch.size < HEADER_SIZE:
            break
        batches.append(_described_batch(batch))
        position += batch.size
    return {f"{name}SizeInBytes": len(view), f"{name}Batches": batches}


def _described_batch(batch: BatchView) -> dict[str, Any]:
    codec = CODECS.get(batch.compression)
    return {
        "baseOffset": batch.base_offset,
        "recordCount": batch.record_count,
        "compression": str(batch.compression) if codec is None else codec.name,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
    }
