"""`StrictMatcher`: answers requests by position.

The nth request of an API on a connection gets the nth recorded response.

A connection is matched with a recorded connection for each API separately, because the timing of a
client's threads varies. It changes the order of requests of different APIs or partitions, and the
connection of requests that any node answers. Within an API the order of similar requests, the
version and the number of requests must be as recorded. Each recorded response is used once.

Discovery requests are matched by content; see `discovery`. Fetch requests are matched by content
too, because a client fails if it gets records of partitions or offsets that it did not request, and
librdkafka aborts its process. A Fetch request gets the recorded response to an equal request. If
there is none, it is answered by offset.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.messages import api_name, parse_request
from kafkalite.lab.replay.standin.discovery import DISCOVERY_APIS, DiscoveryAnswers
from kafkalite.lab.replay.standin.fetch import answer_fetch
from kafkalite.lab.replay.standin.recorded_answers import (
    Answer,
    NoRecordedAnswerError,
    recorded_answer,
)
from kafkalite.lab.replay.standin.request_matching import Similarity, request_key
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.capture.reading.messages import Header
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
    from kafkalite.lab.replay.standin.request_matching import NameOf
    from kafkalite.protocol.message import Message

ApiVersion = tuple[int, int]
"""An API key and a version."""

_LOOK_AHEAD: Final = 256
"""Maximum number of unused exchanges of a sequence that are searched for a similar request."""


class UnusedExchange:
    """A recorded exchange that is not used yet, and the key of its request."""

    __slots__ = ("_is_parsed", "_key", "exchange")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._key: Hashable = None
        self._is_parsed = False

    def key(self, name_of: NameOf) -> Hashable:
        """Return the request key; None if the request is malformed.

        The request is parsed at the first call, because few exchanges are compared.
        """
        if not self._is_parsed:
            self._is_parsed = True
            try:
                self._key = _match_key(self.exchange.api_key, parse_request(self.exchange), name_of)
            except ProtocolViolation:
                self._key = None
        return self._key


class RecordedSequence:
    """The unused exchanges of one API on one recorded connection."""

    __slots__ = ("client_id", "connection", "context", "unused", "used_count")

    def __init__(self, first: Exchange) -> None:
        self.connection = first.connection.number
        self.client_id = first.client_id
        self.unused: deque[UnusedExchange] = deque()
        self.used_count = 0
        self.context: ConnectionContext | None = None
        """The served connection that uses the sequence; None if none does."""

    def has_next(self, requested: ApiVersion) -> bool:
        """Whether the next unused request has this API and version."""
        return bool(self.unused) and _api_version(self.unused[0].exchange) == requested

    def find(self, requested: ApiVersion, key: Hashable, name_of: NameOf) -> int | None:
        """Return the position of the next request with this key; None if it is not found."""
        for position, unused in enumerate(islice(self.unused, _LOOK_AHEAD)):
            if _api_version(unused.exchange) == requested and unused.key(name_of) == key:
                return position
        return None

    def pop(self, position: int) -> Exchange:
        """Return the exchange at a position, and remove it."""
        exchange = self.unused[position].exchange
        del self.unused[position]
        self.used_count += 1
        return exchange


class ConnectionState:
    """The recorded sequences that one served connection uses."""

    __slots__ = ("recorded_connections", "sequences")

    def __init__(self) -> None:
        self.sequences: dict[int, RecordedSequence] = {}
        """By API key."""
        self.recorded_connections: set[int] = set()
        """Numbers of the recorded connections of these sequences."""


class StrictMatcher:
    """Answers requests by their position on a connection."""

    def __init__(self, exchanges: Sequence[Exchange], recorded_cluster: RecordedCluster) -> None:
        self._recorded_cluster = recorded_cluster
        sequences: dict[tuple[int, int], RecordedSequence] = {}
        for exchange in sorted(filter(_belongs_to_sequence, exchanges), key=_order_in_sequence):
            key = exchange.connection.number, exchange.api_key
            if key not in sequences:
                sequences[key] = RecordedSequence(exchange)
            sequences[key].unused.append(UnusedExchange(exchange))
        self._unused: defaultdict[int, list[RecordedSequence]] = defaultdict(list)
        """API key → sequences with unused exchanges."""
        for (_, api_key), sequence in sequences.items():
            self._unused[api_key].append(sequence)
        self._connections: dict[ConnectionContext, ConnectionState] = {}
        discovery = (exchange for exchange in exchanges if exchange.api_key in DISCOVERY_APIS)
        self._discovery = DiscoveryAnswers(sorted(discovery, key=attrgetter("sent_ns")))

    @property
    def unused(self) -> Mapping[str, int]:
        """The number of unused recorded requests of each API."""
        counts = {
            api_name(key): count
            for key, sequences in sorted(self._unused.items())
            if (count := sum(len(sequence.unused) for sequence in sequences))
        }
        return {**counts, **self._discovery.unused}

    def answer(self, context: ConnectionContext, header: Header, request: Message) -> Answer:
        """Return the answer recorded at this position; raises NoRecordedAnswerError."""
        if header.api_key in DISCOVERY_APIS:
            return recorded_answer(self._discovery.next(header, request))
        requested = (header.api_key, header.api_version)
        name_of = self._recorded_cluster.topic_names.get
        key = _match_key(header.api_key, request, name_of)
        connection = self._connections.get(context)
        if connection is None:
            connection = self._connections[context] = ConnectionState()
            context.on_close[self] = lambda: self._release_sequences(context)
        sequence = connection.sequences.get(header.api_key)
        if sequence is None or not sequence.has_next(requested):
            sequence = self._assign(context, connection, requested, key, header.client_id)
        position = None if sequence is None else sequence.find(requested, key, name_of)
        if position is None and isinstance(request, FetchRequest):
            response, delay_ns = answer_fetch(self._recorded_cluster, request)
            return Answer(response, delay_ns)
        if sequence is None:
            raise self._no_answer_error(connection, requested)
        return recorded_answer(sequence.pop(position or 0))

    def _assign(
        self,
        context: ConnectionContext,
        connection: ConnectionState,
        requested: ApiVersion,
        key: Hashable,
        client_id: str | None,
    ) -> RecordedSequence | None:
        """Assign the best recorded sequence whose next request has this API and version."""
        api_key = requested[0]
        unused = self._unused[api_key] = [
            sequence for sequence in self._unused[api_key] if sequence.unused
        ]
        candidates = [sequence for sequence in unused if sequence.has_next(requested)]
        if not candidates:
            return None
        name_of = self._recorded_cluster.topic_names.get
        best = min(
            candidates,
            key=lambda sequence: (
                sequence.client_id != client_id,
                sequence.find(requested, key, name_of) is None,
                sequence.connection not in connection.recorded_connections,
                sequence.context is not None,
                sequence.unused[0].exchange.sent_ns,
            ),
        )
        best.context = context
        connection.sequences[api_key] = best
        connection.recorded_connections.add(best.connection)
        return best

    def _no_answer_error(
        self, connection: ConnectionState, requested: ApiVersion
    ) -> NoRecordedAnswerError:
        unused = [sequence for sequence in self._unused[requested[0]] if sequence.unused]
        if unused:
            versions = sorted({sequence.unused[0].exchange.api_version for sequence in unused})
            text = ", ".join(f"v{version}" for version in versions)
            return NoRecordedAnswerError(
                f"the next recorded request of this API has version {text}"
            )
        sequence = connection.sequences.get(requested[0])
        count = 0 if sequence is None else sequence.used_count
        return NoRecordedAnswerError(
            f"all recorded requests of this API were used, {count} on this connection"
        )

    def _release_sequences(self, context: ConnectionContext) -> None:
        connection = self._connections.pop(context, None)
        for sequence in () if connection is None else connection.sequences.values():
            sequence.context = None


def _api_version(exchange: Exchange) -> ApiVersion:
    return exchange.api_key, exchange.api_version


def _match_key(api_key: int, request: Message, name_of: NameOf) -> Hashable:
    similarity = Similarity.EXACT if api_key == FetchRequest.API_KEY else Similarity.SIMILAR
    return request_key(api_key, request, similarity, name_of)


def _belongs_to_sequence(exchange: Exchange) -> bool:
    """Whether an exchange belongs to the recorded sequence of its connection and API.

    A Fetch request without a response was pending when its client disconnected. It is not used,
    because a client that is matched with it would wait forever.
    """
    if exchange.api_key == FetchRequest.API_KEY:
        return exchange.response is not None
    return exchange.api_key not in DISCOVERY_APIS


def _order_in_sequence(exchange: Exchange) -> tuple[int, int, int]:
    return exchange.connection.number, exchange.sent_ns, exchange.position
