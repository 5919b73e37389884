"""From a frame to its answer: header, decode, lift, handle, lower, encode.

The one place that knows every step, and the only one that tells the three kinds of error apart: a
KafkaError is answered in the API's own words, a ProtocolViolation ends the connection, anything
else is a fault of ours, which is reported whole and answered UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import TYPE_CHECKING, Any

from kafkalite.apis.refusals import note_refusals
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.wire.headers import (
    API_VERSIONS_FLEXIBLE_FROM,
    API_VERSIONS_KEY,
    CORRELATION_END,
    CORRELATION_START,
    HEADER_BYTES,
    response_head,
    response_head_v0,
    skip_tagged_fields,
    unpack_header,
)
from kafkalite.wire.session import Owed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import RequestContext, Run
    from kafkalite.apis.contract import Api
    from kafkalite.wire.session import Pieces

MALFORMED = (StructError, IndexError, UnicodeDecodeError, ProtocolViolation)
"""What a parser raises for bytes that are not the message they claim to be."""

_NO_TAGGED_FIELDS = 0
_PLACEHOLDER = b""
_NO_ANSWER = object()
_INT16_MAX = 0x7FFF

_REMEMBERED_BYTES = 1024
"""A longer request is decoded anew however often it comes."""

_LONGEST_MESSAGE = 8_000
"""Characters, of four bytes at most: a string takes 32,767 bytes."""

_LONGEST_RUN = 256
"""So many requests of one connection are appended together at most."""

_EXPLAINED_BYTES = 16 * 1024
"""A longer body that is malformed is refused unexplained: all others wait while it is walked."""


@dataclass(slots=True, eq=False, repr=False)  # read for every request: slots are read fastest
class Route:
    """All that one version of one API needs, looked up once."""

    parse: Callable[[bytearray, int, int], tuple[Any, int]]
    handler: Callable[[RequestContext, Any], Any]
    build: Callable[[Any, Pieces], None]
    head: Callable[[int, int], bytes]
    is_flexible: bool
    version: int
    era: Any
    lift: Callable[[Any, int], Any] | None
    lower: Callable[[Any, int], Any] | None
    is_gathered: bool
    api: Api


class Repeated:
    """A request of a client that says the same again and again, and what it was told.

    Both are kept as bytes as well, without the correlation id in their midst.
    """

    __slots__ = ("answer", "answer_head", "answer_tail", "head", "request", "route", "tail")

    def __init__(self, route: Route, request: object, frame: bytes) -> None:
        self.route = route
        self.request = request
        self.head = frame[:CORRELATION_START]
        self.tail = frame[CORRELATION_END:]
        self.answer: object = _NO_ANSWER
        self.answer_head = b""
        self.answer_tail = b""

    def keep(self, answer: object, frame: bytes) -> None:
        """Remember what the client was told, and in which words."""
        self.answer = answer
        self.answer_head = frame[:CORRELATION_START]
        self.answer_tail = frame[CORRELATION_END:]


class Dispatcher:
    """Serves the APIs that `find_api(key)` finds.

    `report_fault(api, exception)` is told of every exception that is a fault of ours.
    """

    __slots__ = ("_find_api", "_report_fault", "_routes")

    def __init__(
        self,
        find_api: Callable[[int], Api | None],
        report_fault: Callable[[Api, Exception], None],
    ) -> None:
        self._find_api = find_api
        self._report_fault = report_fault
        self._routes: dict[int, Route] = {}

    def dispatch(
        self, context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | Owed:
        """Serve the request between `start` and `end`: see `wire.session.Serve`."""
        repeated = context.repeated
        if (
            repeated is not None
            and buffer[start + CORRELATION_END : end] == repeated.tail
            and buffer[start : start + CORRELATION_START] == repeated.head
        ):
            route, request = repeated.route, repeated.request
        else:
            repeated = None
            route, request = self._read(context, buffer, start, end)
        context.api_version = route.version
        context.era = route.era
        run = context.run
        if run is not None and (route.is_gathered or run.frames):
            self._gather(context, run, route, buffer, (start, end), out)
        try:
            if route.lift is not None and repeated is None:
                request = route.lift(request, route.version)
            answer = route.handler(context, request)
        except KafkaError as refusal:
            answer = refusal
        except ProtocolViolation:
            raise
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not hurt other clients
            self._report_fault(route.api, fault)
            answer = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        correlation = buffer[start + CORRELATION_START : start + CORRELATION_END]
        if repeated is not None and answer is repeated.answer:
            frame = repeated.answer_head + correlation + repeated.answer_tail
            out.append(frame)
            return len(frame)
        correlation_id = int.from_bytes(correlation, "big", signed=True)
        if answer.__class__ is Waiting:
            return Owed(answer, partial(self._encode, context, route, correlation_id, request))
        mark = len(out)
        size = self._encode(context, route, correlation_id, request, answer, out)
        if route.api.is_repeated and size and end - start <= _REMEMBERED_BYTES:
            repeated = repeated or Repeated(route, request, bytes(buffer[start:end]))
            repeated.keep(answer, b"".join(out[mark:]))
            context.repeated = repeated
        return size

    def settle(self, context: RequestContext, buffer: bytearray, out: Pieces) -> None:
        """Have everything appended that the requests in the context's run decided.

        To be called when all that came has been served, before answers leave. Where a log refuses,
        the answers of the run are taken back and its requests served again, each by itself; they
        are such as may be repeated.
        """
        run = context.run
        if run is None or not run.frames:
            return
        frames, run.frames = run.frames, []
        try:
            context.services.groups.gathering.settle()
        except KafkaError:
            del out[run.mark :]
            context.run = None
            for start, end in frames:
                self.dispatch(context, buffer, start, end, out)
            context.run = run

    def _gather(  # noqa: PLR0917 - as with _read
        self,
        context: RequestContext,
        run: Run,
        route: Route,
        buffer: bytearray,
        frame: tuple[int, int],
        out: Pieces,
    ) -> None:
        """Add a frame to the run if its API is one of those, or else end the run before it."""
        if run.frames and (not route.is_gathered or len(run.frames) >= _LONGEST_RUN):
            self.settle(context, buffer, out)
        if route.is_gathered:
            if not run.frames:
                run.mark = len(out)
            run.frames.append(frame)

    def _read(
        self, context: RequestContext, buffer: bytearray, start: int, end: int
    ) -> tuple[Route, object]:
        """Return the request between `start` and `end`; `context` learns whose it is."""
        if end - start < HEADER_BYTES:
            raise ProtocolViolation(f"a frame of {end - start} bytes is too short for a header")
        key_and_version, _, client_id_length = unpack_header(buffer, start)
        route = self._routes.get(key_and_version) or self._find(key_and_version)
        return route, _read(route, context, buffer, start, end, client_id_length)

    def _encode(  # noqa: PLR0917 - as with _read
        self,
        context: RequestContext,
        route: Route,
        correlation_id: int,
        request: object,
        answer: object,
        out: Pieces,
    ) -> int:
        """Add the answer's frame to `out` and return its size; what cannot be said is refused."""
        mark = len(out)
        try:
            if isinstance(answer, KafkaError):
                note_refusals(context, route.api.name, answer, request)
                answer = route.api.refuse(request, answer.code, _sayable(answer.message))
            if answer is None:
                return 0
            if route.lower is not None:
                answer = route.lower(answer, route.version)
            out.append(_PLACEHOLDER)
            route.build(answer, out)
        except Exception as fault:
            del out[mark:]
            self._report_fault(route.api, fault)
            raise ProtocolViolation(f"{_title(route)} met a fault of this broker") from fault
        body_bytes = sum(map(len, out[mark + 1 :]))
        out[mark] = head = route.head(body_bytes, correlation_id)
        return len(head) + body_bytes

    def _find(self, key_and_version: int) -> Route:
        """Return the route of an API version that was not asked for before."""
        key, version = _signed(key_and_version >> 16), _signed(key_and_version & 0xFFFF)
        api = self._find_api(key)
        if api is None:
            raise ProtocolViolation(f"unknown API key {key}")
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise ProtocolViolation(f"{api.name} has no version {version} here")
            return _unsupported_api_versions(api, version)
        is_flexible = codec.is_flexible(key, version)
        route = Route(
            parse=codec.request_parser(key, version),
            handler=api.handler,
            build=codec.response_builder(key, version),
            head=response_head(key, is_flexible=is_flexible),
            is_flexible=is_flexible,
            version=version,
            era=None if api.eras is None else api.eras.at(version),
            lift=api.lift,
            lower=api.lower,
            is_gathered=api.is_gathered,
            api=api,
        )
        self._routes[key_and_version] = route
        return route


def _unsupported_api_versions(api: Api, version: int) -> Route:
    """Return the route by which a client from the future learns what is spoken here (KIP-511).

    Its body is not looked at, for no one here can read it; the answer has the oldest version.
    """

    def refuse(_: RequestContext, request: object) -> object:
        return api.refuse(request, ErrorCode.UNSUPPORTED_VERSION, None)

    return Route(
        parse=lambda _buffer, _position, end: (None, end),
        handler=refuse,
        build=codec.response_builder(api.key, 0),
        head=response_head_v0,
        is_flexible=version >= API_VERSIONS_FLEXIBLE_FROM,
        version=0,
        era=None,
        lift=None,
        lower=None,
        is_gathered=False,
        api=api,
    )


def _read(  # noqa: PLR0917 - all of what dispatch knows by then, and it is called for every request
    route: Route,
    context: RequestContext,
    buffer: bytearray,
    start: int,
    end: int,
    client_id_length: int,
) -> object:
    """Return the request that follows a header's fixed part, and let `context` know its client."""
    # Clients name themselves the same way every time, so the name is compared, not decoded.
    position = start + HEADER_BYTES
    name: bytearray | int = client_id_length
    if client_id_length > 0:
        name = buffer[position : position + client_id_length]
        position += client_id_length
    try:
        if name != context.client_id_key:
            _set_client_id(context, name, position, end)
        if route.is_flexible:
            if buffer[position] == _NO_TAGGED_FIELDS:
                position += 1
            else:
                position = skip_tagged_fields(buffer, position, end)
    except MALFORMED as error:
        raise ProtocolViolation(f"malformed header of {_title(route)}: {error}") from error
    try:
        # Bytes behind the body are passed over, as Kafka does: librdkafka 2.16 sends three with
        # some of its Metadata requests.
        request, _ = route.parse(buffer, position, end)
    except MALFORMED as error:
        reason = _explained(route, buffer, position, end) or f"{_title(route)}: {error}"
        raise ProtocolViolation(f"malformed {reason}") from error
    return request


def _set_client_id(context: RequestContext, name: bytearray | int, position: int, end: int) -> None:
    """Take note of how the client names itself; UTF-8 of the given bytes, or a length below 1."""
    if position > end:
        raise ProtocolViolation("the client id runs past the frame")
    if isinstance(name, int):
        context.client_id = None if name < 0 else ""
    else:
        context.client_id = name.decode(errors="replace")
    context.client_id_key = name
    context.repeated = None  # said under another name


def _explained(route: Route, buffer: bytearray, position: int, end: int) -> str | None:
    """Return where a body is wrong and why, in one line; None where that cannot be found out."""
    if end - position > _EXPLAINED_BYTES:
        return None
    from kafkalite.protocol.explain import explain  # noqa: PLC0415 - it reads specs by construct

    try:
        body = bytes(buffer[position:end])
        return explain("request", route.api.key, route.version, body)
    except (OSError, LookupError, ValueError):
        return None  # no specs at hand: what the parser said will have to do


def _signed(number: int) -> int:
    """Return the int16 whose bits these are."""
    return number - (1 << 16) if number > _INT16_MAX else number


def _sayable(message: str | None) -> str | None:
    """Cut a message that names what is too long to be named: no string may be that long."""
    if message is None or len(message) <= _LONGEST_MESSAGE:
        return message
    return f"{message[:_LONGEST_MESSAGE]}…"


def _title(route: Route) -> str:
    return f"{route.api.name} v{route.version}"
