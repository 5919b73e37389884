"""Exchanges as lines of text and of JSON, and the filter that selects them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.kafka_json import as_json, records_as_base64, records_as_size
from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import (
    api_name,
    parse_request,
    parse_response,
    response_version,
)
from kafkalite.capture.reading.summary import (
    assigned,
    errors,
    groups,
    named_topics,
    summary,
    topics,
)
from kafkalite.cli.streams import printable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import (
    NANOSECONDS_PER_MICROSECOND,
    NANOSECONDS_PER_MILLISECOND,
    NANOSECONDS_PER_SECOND,
)
from kafkalite.protocol import codec
from kafkalite.protocol.api_names import unknown_name_message
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.capture.model import Exchange, Problem
    from kafkalite.protocol.message import Message

_MAX_TOPIC_NAMES: Final = 100_000
"""Approximate limit of cached topic names."""
_NO_NODE: Final = -1
"""Node id that a proxy records for connections to its bootstrap address."""


class DecodedExchange(NamedTuple):
    """An exchange with its messages; a message that cannot be decoded is None."""

    exchange: Exchange
    request: Message | None
    response: Message | None
    reason: str | None
    """The reason why a message cannot be decoded; None if both are decoded."""
    topic_names: Mapping[bytes, str] = MappingProxyType({})
    """Topic names by id, from earlier exchanges."""


def decode(exchange: Exchange, topic_names: dict[bytes, str] | None = None) -> DecodedExchange:
    """Decode the messages of an exchange; adds the topic names in them to `topic_names`."""
    topic_names = {} if topic_names is None else topic_names
    messages: list[Message | None] = []
    reason = None
    parsers: tuple[Callable[[Exchange], Message | None], ...] = (parse_request, parse_response)
    for parse in parsers:
        try:
            messages.append(parse(exchange))
        except ProtocolViolation as violation:
            messages.append(None)
            reason = reason or violation.reason
    if len(topic_names) < _MAX_TOPIC_NAMES:
        topic_names.update(named_topics(messages[1]))
    return DecodedExchange(exchange, messages[0], messages[1], reason, topic_names)


@dataclass(frozen=True, slots=True)
class ExchangeFilter:
    """Selects exchanges; all conditions must match."""

    api_keys: frozenset[int] | None
    client: str | None
    group: str | None
    topic: str | None
    only_errors: bool
    offsets: frozenset[int]
    """File offsets of packets; empty for all exchanges."""

    @classmethod
    def of(cls, arguments: Namespace) -> ExchangeFilter:
        """Return the filter that options define; raises ValueError for an unknown API."""
        return cls(
            _api_keys(arguments.api),
            arguments.client,
            arguments.group,
            arguments.topic,
            arguments.errors,
            frozenset(arguments.offset),
        )

    def matches(self, decoded: DecodedExchange) -> bool:
        """Return whether an exchange is selected."""
        exchange, request, response, _, topic_names = decoded
        if self.api_keys is not None and exchange.api_key not in self.api_keys:
            return False
        if self.offsets and exchange.offset not in self.offsets:
            return False
        clients = (exchange.client_id or "", str(exchange.connection.client))
        if self.client is not None and not _matches(self.client, clients):
            return False
        if self.group is not None and (
            request is None or not _matches(self.group, groups(request))
        ):
            return False
        if self.topic is not None:
            messages = (each for each in (request, response) if each is not None)
            names = (topics(each, topic_names) for each in messages)
            if not _matches(self.topic, set().union(*names)):
                return False
        return not self.only_errors or (response is not None and bool(errors(response)))


def _api_keys(names: Iterable[str] | None) -> frozenset[int] | None:
    """Return the keys of APIs given by name or number, None for all APIs."""
    if names is None:
        return None
    known = {codec.api_name(key).lower(): key for key in codec.api_keys()}
    found = set()
    for name in (each for part in names for each in part.split(",")):
        key = int(name) if name.isdecimal() else known.get(name.lower())
        if key is None:
            raise ValueError(unknown_name_message(name))
        found.add(key)
    return frozenset(found)


def _matches(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


# -- lines ---------------------------------------------------------------------------------


def exchange_line(decoded: DecodedExchange) -> str:
    """Return an exchange as a line: time, client, broker, API, latency, entities, outcome."""
    exchange, request, _, reason, topic_names = decoded
    client = f"{exchange.client_id or '-'}@{exchange.connection.client}"
    broker = str(exchange.connection.broker)
    if exchange.connection.node_id == _NO_NODE:
        broker = f"{broker} (bootstrap)"
    elif exchange.connection.node_id is not None:
        broker = f"{broker} (node {exchange.connection.node_id})"
    entities = "" if request is None else summary(request, topic_names)
    columns = (
        time_text(exchange.sent_ns),
        f"{client} > {broker}",
        f"{api_name(exchange.api_key)} v{exchange.api_version}",
        latency_text(exchange),
        entities,
        reason or _outcome(decoded),
    )
    return printable("  ".join(column for column in columns if column)) + "\n"


def json_line(decoded: DecodedExchange, *, records: bool) -> str:
    """Return an exchange as a line with a JSON object."""
    exchange, request, response, reason, _ = decoded
    connection = exchange.connection
    answered_ns = exchange.answered_ns
    fields: dict[str, object] = {
        "time": time_text(exchange.sent_ns),
        "sentNs": exchange.sent_ns,
        "answeredNs": answered_ns,
        "latencyUs": None
        if answered_ns is None
        else (answered_ns - exchange.sent_ns) / NANOSECONDS_PER_MICROSECOND,
        "connection": connection.number,
        "position": exchange.position,
        "client": str(connection.client),
        "broker": str(connection.broker),
        "nodeId": connection.node_id,
        "listener": connection.listener,
        "api": api_name(exchange.api_key),
        "apiKey": exchange.api_key,
        "apiVersion": exchange.api_version,
        "correlationId": exchange.correlation_id,
        "clientId": exchange.client_id,
        "requestBytes": len(exchange.request),
        "responseBytes": None if exchange.response is None else len(exchange.response),
        "errors": [] if response is None else errors(response),
        "request": _message_json(exchange, request, is_request=True, records=records),
        "response": _message_json(exchange, response, is_request=False, records=records),
    }
    if reason is not None:
        fields["unreadable"] = reason
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _message_json(
    exchange: Exchange, message: Message | None, *, is_request: bool, records: bool
) -> object:
    if message is None:
        return None
    api_key, version = exchange.api_key, exchange.api_version
    direction = Direction.REQUEST if is_request else Direction.RESPONSE
    if not is_request:
        version = response_version(exchange.response or b"", api_key, version)
    writer = records_as_base64 if records else records_as_size
    return as_json(message, api_key, direction, version, records=writer)


def time_text(at_ns: int) -> str:
    """Return a time in ISO 8601, in UTC."""
    seconds, rest = divmod(at_ns, NANOSECONDS_PER_SECOND)
    try:
        second_text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{at_ns} ns"  # outside of the calendar
    return f"{second_text}.{rest // NANOSECONDS_PER_MICROSECOND:06}Z"


def latency_text(exchange: Exchange) -> str:
    """Return the time from the request to its response, in milliseconds."""
    if exchange.answered_ns is None:
        return "unanswered"
    return f"{(exchange.answered_ns - exchange.sent_ns) / NANOSECONDS_PER_MILLISECOND:.3f} ms"


def _outcome(decoded: DecodedExchange) -> str:
    """Return the errors of a response, or what it assigns."""
    response = decoded.response
    return "" if response is None else " ".join(errors(response)) or assigned(response)


def problem_line(problem: Problem, *, as_json: bool) -> str:
    """Return a problem of a capture as a line of text or JSON."""
    if as_json:
        return json.dumps(asdict(problem), ensure_ascii=False, separators=(",", ":")) + "\n"
    position = problem.file if problem.offset is None else f"{problem.file}:{problem.offset}"
    times = f"({problem.count} times)" if problem.count > 1 else ""
    columns = (position, problem.connection, f"{problem.kind}: {problem.detail}", times)
    return printable("  ".join(column for column in columns if column)) + "\n"
