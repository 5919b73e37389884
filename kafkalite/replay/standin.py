"""StandIn: a recorded cluster, answering again.

By position (`strict`): the requests of each API on a connection get the answers that they got on a
recorded one, one after the other, verbatim; records that were asked for otherwise, by offset. By
meaning (lenient): a request gets the answer that one like it got, whoever asked and in whichever
version; the next of them each time, and the last for ever. Records are then read by offset from all
that the capture shows of a partition, for a consumer that reads in other portions asks for what
nobody asked for.

Addresses are ours: the recorded nodes stand behind our listeners, in the order of their ids. What
took a while takes as long again, by the broker's clock.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.apis.dispatch import MALFORMED
from kafkalite.capture.messages import api_name, parse_request, request_header
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.proxy.rewriting import ADDRESSED
from kafkalite.replay.answers import NO_ACKS, Answer, MissError, recorded_answer
from kafkalite.replay.known_groups import FIND_COORDINATOR, OFFSET_FETCH, KnownGroups
from kafkalite.replay.known_offsets import LIST_OFFSETS, KnownOffsets
from kafkalite.replay.known_topics import METADATA, KnownTopics
from kafkalite.replay.likeness import Nearness, echoes, fit, likeness
from kafkalite.replay.shelf_reader import read_shelves
from kafkalite.replay.strict import Strict
from kafkalite.wire.headers import response_head
from kafkalite.wire.session import Owed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from kafkalite.apis.context import Endpoint, RequestContext, Services
    from kafkalite.capture.messages import Header
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message
    from kafkalite.replay.library import Library
    from kafkalite.server.logging import Log
    from kafkalite.server.stage import Dispatch
    from kafkalite.wire.session import Pieces

FETCH, OFFSET_COMMIT = 1, 8
_SOON_NS = 1_000_000
"""An answer that took less is given at once."""
_MS = 1_000_000


@dataclass(slots=True)
class Played:
    """How many requests were answered from the capture, and how many were not there."""

    answered: int = 0
    missed: int = 0


class Turns:
    """Exchanges that are played one after the other, and the last for ever."""

    __slots__ = ("_at", "exchanges")

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._at = 0

    def next(self) -> Exchange:
        """Return whose turn it is."""
        found = self.exchanges[self._at]
        self._at = min(self._at + 1, len(self.exchanges) - 1)
        return found


class Alike:
    """Exchanges of requests that are alike, and which of them are the same.

    That is found out when first somebody asks for them: few of a long capture's ever are.
    """

    __slots__ = ("_same", "line")

    def __init__(self) -> None:
        self.line = Turns()
        self._same: dict[Hashable, Turns] | None = None

    def add(self, exchange: Exchange) -> None:
        """Take one more, in the order of time."""
        self.line.exchanges.append(exchange)

    def same(self, likeness_of: Callable[[int, Message], Hashable]) -> Mapping[Hashable, Turns]:
        """Return them by what is equal for those that are the same."""
        if self._same is None:
            found: defaultdict[Hashable, Turns] = defaultdict(Turns)
            for each in self.line.exchanges:
                found[likeness_of(each.api_key, parse_request(each))].exchanges.append(each)
            self._same = dict(found)
        return self._same


class Lenient:
    """Answers by meaning."""

    def __init__(self, exchanges: Sequence[Exchange], library: Library) -> None:
        self._library = library
        names = library.names.get
        topics, offsets, groups = KnownTopics(), KnownOffsets(), KnownGroups()
        self._known_groups = groups
        self._compose: dict[int, Callable[[Any, int], Message | None]] = {
            LIST_OFFSETS: lambda request, _: offsets.answer(request, library),
            METADATA: lambda request, _: topics.answer(request, names),
            OFFSET_COMMIT: lambda request, _: groups.accept(request, names),
            OFFSET_FETCH: lambda request, version: groups.offsets(request, version, names),
            FIND_COORDINATOR: groups.coordinators,
        }
        """API key → an answer, by its version, to what nobody asked like this; None for a miss."""
        self._joined: set[str] = set()
        self._said: defaultdict[Hashable, Alike] = defaultdict(Alike)
        kinds: dict[tuple[int, int, bytes], Hashable] = {}
        for exchange in exchanges:
            topics.take(exchange)
            offsets.take(exchange)
            groups.take(exchange, names)
            if exchange.api_key == FETCH:
                continue  # records are read by offset
            body = exchange.request[exchange.request_start :]
            kind = kinds.get((exchange.api_key, exchange.api_version, body))
            if kind is None:
                try:
                    request = parse_request(exchange)
                except ProtocolViolation:
                    continue
                kind = self._likeness(exchange.api_key, request, Nearness.ALIKE)
                kinds[exchange.api_key, exchange.api_version, body] = kind
                if isinstance(request, JoinGroupRequest):
                    self._joined.add(request.group_id)
            if exchange.response is not None or _is_none_due(exchange):
                self._said[kind].add(exchange)

    def _likeness(self, api_key: int, request: Message, nearness: Nearness) -> Hashable:
        wants_none = isinstance(request, ProduceRequest) and request.acks == NO_ACKS
        return likeness(api_key, request, nearness, self._library.names.get), wants_none

    def answer(self, context: RequestContext, header: Header, request: Message) -> Answer:
        """Return what one like it got; MissError."""
        del context
        if isinstance(request, FetchRequest):
            response, wait_ms = read_shelves(self._library, request)
            return Answer(response, wait_ms * _MS)
        found = self._found(header, request)
        if found is None:
            answer = self._composed(header, request)
            self._note(request, answer)
            return answer
        answer = recorded_answer(found)
        if answer.response is not None:
            words = echoes(header.api_key, parse_request(found), request)
            ids, names = self._library.ids.get, self._library.names.get
            fit(header.api_key, answer.response, words, ids, names)
        self._note(request, answer)
        return answer

    def _note(self, request: Message, answer: Answer) -> None:
        if isinstance(request, OffsetCommitRequest) and answer.response is not None:
            self._known_groups.commit(request, answer.response, self._library.names.get)

    def _composed(self, header: Header, request: Message) -> Answer:
        """Return what a request must have got that nobody asked like this; MissError."""
        compose = self._compose.get(header.api_key)
        response = None if compose is None else compose(request, header.api_version)
        if response is not None:
            ids, names = self._library.ids.get, self._library.names.get
            fit(header.api_key, response, {}, ids, names)
            return Answer(response)
        if isinstance(request, HeartbeatRequest) and request.group_id in self._joined:
            # Whoever was recorded left before its first was due.
            return Answer(HeartbeatResponse())
        raise MissError("nobody asked for anything like it")

    def _found(self, header: Header, request: Message) -> Exchange | None:
        """Return the exchange of a request that is most like this one, the next one each time."""
        alike = self._said.get(self._likeness(header.api_key, request, Nearness.ALIKE))
        if alike is None:
            return None
        if len(alike.line.exchanges) == 1:
            return alike.line.next()
        same = alike.same(partial(self._likeness, nearness=Nearness.SAME))
        line = same.get(self._likeness(header.api_key, request, Nearness.SAME), alike.line)
        return line.next()


def _is_none_due(exchange: Exchange) -> bool:
    try:
        return not recorded_answer(exchange).is_due
    except MissError:
        return False


@dataclass(slots=True)
class StandIn:
    """Serves a broker's clients from a capture; a stage, see `server.stage`."""

    source: Strict | Lenient
    nodes: Sequence[int]
    """The recorded nodes, in the order of our listeners."""
    log: Log
    is_live_on_miss: bool = False
    """Whether what the capture does not have is left to the live broker."""
    played: Played = field(default_factory=Played)
    _services: Services | None = None
    _live: Dispatch | None = None

    def enter(self, services: Services, dispatch: Dispatch) -> Dispatch:
        """Stand in from now on."""
        self._services, self._live = services, dispatch
        return self.dispatch

    def leave(self) -> None:
        """Say how it went."""
        not_asked = self.source.not_asked if isinstance(self.source, Strict) else {}
        self.log.info(
            "replayed a capture",
            answered=self.played.answered,
            missed=self.played.missed,
            **({"not_asked": not_asked} if not_asked else {}),
        )

    def dispatch(
        self, context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | Owed:
        """Serve the request between `start` and `end`: see `wire.session.Serve`."""
        assert self._live is not None
        header, request = _read(bytes(buffer[start:end]))
        context.client_id = header.client_id
        try:
            answer = self.source.answer(context, header, request)
        except MissError as miss:
            self.played.missed += 1
            title = f"{api_name(header.api_key)} v{header.api_version}"
            if not self.is_live_on_miss:
                raise ProtocolViolation(f"the capture has no answer to {title}: {miss}") from None
            self.log.info("left to the live broker", request=title, reason=str(miss))
            return self._live(context, buffer, start, end, out)
        self.played.answered += 1
        if not answer.is_due:
            return 0
        if answer.response is None:
            # Nor did the recorded client hear any more.
            return Owed(Waiting(), partial(_encode, header))
        readdress(header.api_key, answer.response, self._places(context))
        if answer.after_ns < _SOON_NS:
            return _encode(header, answer.response, out)
        return Owed(self._later(answer), partial(_encode, header))

    def _later(self, answer: Answer) -> Waiting[Message | None]:
        assert self._services is not None
        clock = self._services.clock
        due_ms = clock.now_ms() + answer.after_ns // _MS
        timer = clock.wait_at(due_ms, lambda: waiting.resolve(answer.response))
        waiting: Waiting[Message | None] = Waiting(on_abandon=timer.cancel)
        return waiting

    def _places(self, context: RequestContext) -> Mapping[int, Endpoint]:
        """Return where each recorded node is to be found now."""
        assert self._services is not None
        ours = self._services.endpoints(context.listener)
        return {node: ours[at % len(ours)] for at, node in enumerate(self.nodes)}


def readdress(api_key: int, response: Message, places: Mapping[int, Endpoint]) -> None:
    """Tell our addresses where a response tells those of recorded nodes."""
    addressed = ADDRESSED.get(api_key)
    for row, node in () if addressed is None else addressed.places(response):
        place = places.get(node.node_id)
        if place is not None and row.host:
            row.host, row.port = place.host, place.port


def _read(frame: bytes) -> tuple[Header, Any]:
    """Return a request's header and the request; ProtocolViolation."""
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
    head = response_head(header.api_key, is_flexible=is_flexible)(size, header.correlation_id)
    out.append(head)
    out += body
    return len(head) + size
