"""`StandIn`: answers clients from a capture in place of the recorded cluster.

`StrictMatcher` matches requests by position: the requests of an API on a connection get the
responses of a recorded connection, in order. Fetch requests that were not recorded are answered by
offset.

`LenientMatcher` matches requests by content: a request gets the response to a similar recorded
request of any client and version. If there are several, they are used in order, and the last one is
repeated. Fetch requests are answered by offset from all recorded records of a partition.

The addresses of recorded nodes in responses are replaced by those of our listeners, in order of
node ids. Each response has its recorded delay, measured by the broker's clock.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import api_name, parse_request, request_header
from kafkalite.gateway.responder import ResponderAnswer
from kafkalite.gateway.route import MALFORMED
from kafkalite.lab.proxy.address_rewriting import ADDRESS_FIELDS
from kafkalite.lab.replay.standin.fetch import answer_full_fetch
from kafkalite.lab.replay.standin.groups import FIND_COORDINATOR, OFFSET_FETCH, RecordedGroups
from kafkalite.lab.replay.standin.offsets import LIST_OFFSETS, RecordedOffsets
from kafkalite.lab.replay.standin.recorded_answers import (
    NO_ACKS,
    Answer,
    NoRecordedAnswerError,
    recorded_answer,
)
from kafkalite.lab.replay.standin.request_matching import (
    Similarity,
    adapt_response,
    id_replacements,
    request_key,
)
from kafkalite.lab.replay.standin.strict import StrictMatcher
from kafkalite.lab.replay.standin.topics import METADATA, RecordedTopics
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.headers import response_header_packer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.capture.reading.messages import Header
    from kafkalite.cluster.node import Endpoint
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
    from kafkalite.ports.clock import Clock
    from kafkalite.protocol.message import Message
    from kafkalite.server.logging import Log
    from kafkalite.wire.session import Pieces

FETCH, OFFSET_COMMIT = ApiKey.FETCH, ApiKey.OFFSET_COMMIT
_MIN_DELAY_NS = NANOSECONDS_PER_MILLISECOND
"""Responses with a shorter recorded delay are sent at once."""
_UNEQUAL_CLIENT_ID_KEY = b""
"""This key equals no client id on the wire, so the gateway decodes the client id of the next
request that it answers itself."""


@dataclass(slots=True)
class RequestCounts:
    """The numbers of requests with and without an answer in the capture."""

    answered: int = 0
    missed: int = 0


class ExchangeSequence:
    """Exchanges that are used in order; the last one is repeated."""

    __slots__ = ("_next_index", "exchanges")

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._next_index = 0

    def next(self) -> Exchange:
        """Return the next exchange."""
        exchange = self.exchanges[self._next_index]
        self._next_index = min(self._next_index + 1, len(self.exchanges) - 1)
        return exchange


class SimilarExchanges:
    """Exchanges of similar requests, also grouped by the exact key of the request.

    They are grouped at the first use, because few exchanges of a long capture are used.
    """

    __slots__ = ("_by_exact_key", "all")

    def __init__(self) -> None:
        self.all = ExchangeSequence()
        self._by_exact_key: dict[Hashable, ExchangeSequence] | None = None

    def add(self, exchange: Exchange) -> None:
        """Add an exchange; the caller adds exchanges in order of time."""
        self.all.exchanges.append(exchange)

    def by_exact_key(
        self, key_of: Callable[[int, Message], Hashable]
    ) -> Mapping[Hashable, ExchangeSequence]:
        """Return the exchanges by the exact key of their request."""
        if self._by_exact_key is None:
            sequences: defaultdict[Hashable, ExchangeSequence] = defaultdict(ExchangeSequence)
            for exchange in self.all.exchanges:
                sequences[key_of(exchange.api_key, parse_request(exchange))].exchanges.append(
                    exchange
                )
            self._by_exact_key = dict(sequences)
        return self._by_exact_key


class LenientMatcher:
    """Answers requests from similar recorded requests."""

    def __init__(self, exchanges: Sequence[Exchange], recorded_cluster: RecordedCluster) -> None:
        self._recorded_cluster = recorded_cluster
        name_of = recorded_cluster.topic_names.get
        topics, offsets, groups = RecordedTopics(), RecordedOffsets(), RecordedGroups()
        self._groups = groups
        self._composers: dict[int, Callable[[Any, int], Message | None]] = {
            LIST_OFFSETS: lambda request, _: offsets.answer(request, recorded_cluster),
            METADATA: lambda request, _: topics.answer(request, name_of),
            OFFSET_COMMIT: lambda request, _: groups.answer_offset_commit(request, name_of),
            OFFSET_FETCH: lambda request, version: groups.answer_offset_fetch(
                request, version, name_of
            ),
            FIND_COORDINATOR: groups.answer_find_coordinator,
        }
        """API key → a function (request, version) that composes a response from recorded data."""
        self._joined_groups: set[str] = set()
        self._exchanges: defaultdict[Hashable, SimilarExchanges] = defaultdict(SimilarExchanges)
        keys_by_body: dict[tuple[int, int, bytes], Hashable] = {}
        for exchange in exchanges:
            topics.learn(exchange)
            offsets.learn(exchange)
            groups.learn(exchange, name_of)
            if exchange.api_key == FETCH:
                continue  # Fetch requests are answered by offset
            body = exchange.request[exchange.request_start :]
            key = keys_by_body.get((exchange.api_key, exchange.api_version, body))
            if key is None:
                try:
                    request = parse_request(exchange)
                except ProtocolViolation:
                    continue
                key = self._request_key(exchange.api_key, request, Similarity.SIMILAR)
                keys_by_body[exchange.api_key, exchange.api_version, body] = key
                if isinstance(request, JoinGroupRequest):
                    self._joined_groups.add(request.group_id)
            if exchange.response is not None or not _is_response_due(exchange):
                self._exchanges[key].add(exchange)

    def _request_key(self, api_key: int, request: Message, similarity: Similarity) -> Hashable:
        has_no_acks = isinstance(request, ProduceRequest) and request.acks == NO_ACKS
        return request_key(
            api_key, request, similarity, self._recorded_cluster.topic_names.get
        ), has_no_acks

    def answer(self, context: ConnectionContext, header: Header, request: Message) -> Answer:
        """Return the answer to a similar recorded request; raises NoRecordedAnswerError."""
        del context
        if isinstance(request, FetchRequest):
            response, wait_ms = answer_full_fetch(self._recorded_cluster, request)
            return Answer(response, wait_ms * NANOSECONDS_PER_MILLISECOND)
        recorded = self._find_exchange(header, request)
        if recorded is None:
            answer = self._composed_answer(header, request)
            self._store_commit(request, answer)
            return answer
        answer = recorded_answer(recorded)
        if answer.response is not None:
            replacements = id_replacements(header.api_key, parse_request(recorded), request)
            id_of, name_of = (
                self._recorded_cluster.topic_ids.get,
                self._recorded_cluster.topic_names.get,
            )
            adapt_response(header.api_key, answer.response, replacements, id_of, name_of)
        self._store_commit(request, answer)
        return answer

    def _store_commit(self, request: Message, answer: Answer) -> None:
        if isinstance(request, OffsetCommitRequest) and answer.response is not None:
            self._groups.store_commit(
                request, answer.response, self._recorded_cluster.topic_names.get
            )

    def _composed_answer(self, header: Header, request: Message) -> Answer:
        """Return an answer composed of recorded data; raises NoRecordedAnswerError."""
        compose = self._composers.get(header.api_key)
        response = None if compose is None else compose(request, header.api_version)
        if response is not None:
            id_of, name_of = (
                self._recorded_cluster.topic_ids.get,
                self._recorded_cluster.topic_names.get,
            )
            adapt_response(header.api_key, response, {}, id_of, name_of)
            return Answer(response)
        if isinstance(request, HeartbeatRequest) and request.group_id in self._joined_groups:
            # The recorded member left the group before its first heartbeat.
            return Answer(HeartbeatResponse())
        raise NoRecordedAnswerError("no similar request was recorded")

    def _find_exchange(self, header: Header, request: Message) -> Exchange | None:
        """Return the next exchange of an equal request, or else of a similar request."""
        similar = self._exchanges.get(
            self._request_key(header.api_key, request, Similarity.SIMILAR)
        )
        if similar is None:
            return None
        if len(similar.all.exchanges) == 1:
            return similar.all.next()
        by_exact_key = similar.by_exact_key(partial(self._request_key, similarity=Similarity.EXACT))
        sequence = by_exact_key.get(
            self._request_key(header.api_key, request, Similarity.EXACT), similar.all
        )
        return sequence.next()


def _is_response_due(exchange: Exchange) -> bool:
    try:
        return recorded_answer(exchange).is_due
    except NoRecordedAnswerError:
        return True


@dataclass(slots=True)
class StandIn:
    """Answers a broker's clients from a capture; see `gateway.responder`."""

    matcher: StrictMatcher | LenientMatcher
    nodes: Sequence[int]
    """Ids of the recorded nodes, in the order of our nodes."""
    log: Log
    is_live_on_miss: bool = False
    """Whether the live broker answers requests that have no response in the capture."""
    counts: RequestCounts = field(default_factory=RequestCounts)

    def close(self) -> None:
        """Log the number of answered requests."""
        unused = self.matcher.unused if isinstance(self.matcher, StrictMatcher) else {}
        self.log.info(
            "stand-in closed",
            answered=self.counts.answered,
            missed=self.counts.missed,
            **({"unused": unused} if unused else {}),
        )

    def respond(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int
    ) -> ResponderAnswer | None:
        """Return the answer in the capture; None if the live broker is to answer the request."""
        header, request = _parse_frame(bytes(buffer[start:end]))
        context.set_client_id(header.client_id, _UNEQUAL_CLIENT_ID_KEY)
        try:
            answer = self.matcher.answer(context, header, request)
        except NoRecordedAnswerError as miss:
            self.counts.missed += 1
            title = f"{api_name(header.api_key)} v{header.api_version}"
            if not self.is_live_on_miss:
                raise ProtocolViolation(f"the capture has no response to {title}: {miss}") from None
            self.log.info("request passed to the live broker", request=title, reason=str(miss))
            return None
        self.counts.answered += 1
        response: Any = answer.response
        if answer.is_due and response is None:
            response = Waiting()  # the recorded client did not get a response either
        elif answer.is_due:
            replace_addresses(header.api_key, response, self._endpoints(context))
            if answer.delay_ns >= _MIN_DELAY_NS:
                response = _delay_response(context.node.clock, answer)
        else:
            response = None
        return ResponderAnswer(request, response, partial(_encode, header))

    def _endpoints(self, context: ConnectionContext) -> Mapping[int, Endpoint]:
        """Return recorded node id → the endpoint of our node."""
        endpoints = context.node.known_endpoints(context.listener)
        return {
            node: endpoints[position % len(endpoints)] for position, node in enumerate(self.nodes)
        }


def _delay_response(clock: Clock, answer: Answer) -> Waiting[Message | None]:
    """Return the response as a `Waiting` that is resolved after the recorded delay."""
    due_ms = clock.now_ms() + answer.delay_ns // NANOSECONDS_PER_MILLISECOND
    timer = clock.wait_at(due_ms, lambda: waiting.resolve(answer.response))
    waiting: Waiting[Message | None] = Waiting(on_abandon=timer.cancel)
    return waiting


def replace_addresses(api_key: int, response: Message, endpoints: Mapping[int, Endpoint]) -> None:
    """Replace the addresses of recorded nodes in a response by `endpoints`."""
    fields = ADDRESS_FIELDS.get(api_key)
    for row, node in () if fields is None else fields.find(response):
        endpoint = endpoints.get(node.node_id)
        if endpoint is not None and row.host:
            row.host, row.port = endpoint.host, endpoint.port


def _parse_frame(frame: bytes) -> tuple[Header, Any]:
    """Return a request's header and the request; raises ProtocolViolation."""
    header = request_header(frame)
    try:
        parse = codec.request_parser(header.api_key, header.api_version)
        request, _ = parse(frame, header.start, len(frame))
    except KeyError:
        raise ProtocolViolation(
            f"API {header.api_key} of version {header.api_version} is unknown"
        ) from None
    except MALFORMED as error:
        name = api_name(header.api_key)
        raise ProtocolViolation(f"malformed {name} v{header.api_version}: {error}") from error
    return header, request


def _encode(header: Header, response: Message, out: Pieces) -> int:
    """Add the response's frame to `out` and return its size."""
    body: Pieces = []
    codec.response_builder(header.api_key, header.api_version)(response, body)
    size = sum(map(len, body))
    is_flexible = codec.is_flexible(header.api_key, header.api_version)
    head = response_header_packer(header.api_key, is_flexible=is_flexible)(
        size, header.correlation_id
    )
    out.append(head)
    out += body
    return len(head) + size
