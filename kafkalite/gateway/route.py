"""Route: everything needed to serve one version of one API: decode, lift, handle, lower, encode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from sys import intern
from typing import TYPE_CHECKING, Any

from kafkalite.gateway.steps import ConditionalStep, wrap_handler
from kafkalite.ports import turns
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.long_messages import (
    JoinedPieces,
    bounded_variant,
    long_message_parser,
    pausing_variant,
)
from kafkalite.wire.headers import (
    API_VERSIONS_FLEXIBLE_FROM,
    CORRELATION_START,
    HEADER_BYTES,
    pack_response_header_v0,
    response_header_packer,
    skip_tagged_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call, ConnectionContext
    from kafkalite.gateway.steps import Condition, Handler, Step
    from kafkalite.wire.session import Pieces

MALFORMED = (StructError, IndexError, UnicodeDecodeError, ProtocolViolation)
"""Exceptions of a parser for bytes that are not a valid message."""

_NO_TAGGED_FIELDS = 0

_MAX_EXPLAINED_BYTES = 16 * 1024
"""The error in a longer malformed body is not explained: finding its position takes long."""


@dataclass(slots=True, eq=False, repr=False)  # slots: attributes are read for every request
class Route:
    """The functions and traits of one version of one API, looked up once."""

    parse: Callable[[bytearray, int, int], tuple[Any, int]]
    handler: Handler
    """The handler of the API inside the installed steps."""
    build: Callable[[Any, Pieces], None]
    pack_header: Callable[[int, int], bytes]
    is_flexible: bool
    version: int
    era: Any
    lift: Callable[[Any, int], Any] | None
    lower: Callable[[Any, int], Any] | None
    is_batched: bool
    inline_bytes: int
    is_inline_with_short_lists: bool
    may_take_long: Callable[[Call, Any], bool] | None
    api: Api
    repeated_prefix: bytes = b""
    """The first bytes of requests that may be served without decoding; see `gateway.repeated`.

    Empty while a responder, or a step that is not immediate, is installed, and for APIs whose
    requests are not repeated.
    """
    undisturbed_route: Route | None = None
    """The same route without conditional steps; only for APIs that are repeated or batched."""
    is_disturbed: Condition | None = None
    """Whether a request needs the conditional steps, and not `undisturbed_route`."""
    long_message_route: Route | None = None
    """The same route with a codec that pauses; created when first needed."""
    short_list_route: Route | None = None
    """The same route with a parser for short lists only; created when first needed."""

    def compose(self, steps: Sequence[Step], *, may_repeat: bool = True) -> None:
        """Use these steps around the handler from now on; the first step is the outermost.

        Without `may_repeat`, or with a step for this version that is not immediate, every request
        is decoded, except those that need no conditional step. The route is changed in place,
        because connections and requests that are being read refer to it.
        """
        undisturbed, self.undisturbed_route = self.undisturbed_route, None
        if undisturbed is not None:
            undisturbed.repeated_prefix = b""  # connections may refer to it
        conditional = [
            step
            for step in steps
            if isinstance(step, ConditionalStep)
            and step.wrap(self.api, self.version, self.api.handler) is not self.api.handler
        ]
        self.set_steps(steps, may_repeat=may_repeat)
        if conditional and (self.api.is_repeated or self.api.is_batched) and self.lift is None:
            others = [step for step in steps if step not in conditional]
            self.undisturbed_route = replace(self)
            self.undisturbed_route.set_steps(others, may_repeat=may_repeat)
            conditions = [step.condition(self.api) for step in conditional]
            self.is_disturbed = _any_of(conditions)
        for route in (self.long_message_route, self.short_list_route):
            if route is not None:
                route.handler = self.handler
                route.is_batched = self.is_batched
                route.repeated_prefix = self.repeated_prefix
                route.undisturbed_route = self.undisturbed_route
                route.is_disturbed = self.is_disturbed

    def set_steps(self, steps: Sequence[Step], *, may_repeat: bool) -> None:
        """Use these steps in this route only, and not in those that are derived from it."""
        self.handler, is_immediate = wrap_handler(self.api, self.version, steps)
        self.repeated_prefix = b""
        if may_repeat and self.api.is_repeated and is_immediate:
            key_and_version = (self.api.key & 0xFFFF) << 16 | self.version & 0xFFFF
            self.repeated_prefix = key_and_version.to_bytes(CORRELATION_START)
        # Other steps may pause or wait, which a batched request must not do.
        self.is_batched = self.api.is_batched and is_immediate

    def for_short_lists(self) -> Route:
        """Return the route that serves long requests with short lists immediately.

        Raises NeedsWorkerError if the API has none.
        """
        if self.short_list_route is None:
            if not self.is_inline_with_short_lists:
                raise turns.NeedsWorkerError
            self.short_list_route = replace(self, parse=bounded_variant(self.parse))
        return self.short_list_route

    def for_long_messages(self) -> Route:
        """Return the route that pauses while it parses and builds long messages.

        Long lists of its requests pause while they are iterated: see `Api.pausing_lists`.
        """
        if self.long_message_route is None:
            self.long_message_route = replace(
                self,
                parse=long_message_parser(
                    self.parse, self.api.max_elements, self.api.pausing_lists
                ),
                build=_joined_builder(pausing_variant(self.build)),
            )
            self.long_message_route.long_message_route = self.long_message_route
        return self.long_message_route

    def read(
        self,
        context: ConnectionContext,
        buffer: bytearray,
        start: int,
        end: int,
        client_id_length: int,
    ) -> object:
        """Return the request after the fixed part of a header; set the client id of `context`."""
        # Clients send the same client id every time, so its bytes are compared, not decoded.
        position = start + HEADER_BYTES
        name: bytearray | int = client_id_length
        if client_id_length > 0:
            name = buffer[position : position + client_id_length]
            position += client_id_length
        try:
            if name != context.encoded_client_id:
                _set_client_id(context, name, position, end)
            if self.is_flexible:
                if buffer[position] == _NO_TAGGED_FIELDS:
                    position += 1
                else:
                    position = skip_tagged_fields(buffer, position, end)
        except MALFORMED as error:
            raise ProtocolViolation(f"malformed header of {self.title}: {error}") from error
        try:
            # Bytes after the body are skipped, as in Kafka: librdkafka 2.16 sends three with
            # some of its Metadata requests.
            request, _ = self.parse(buffer, position, end)
        except MALFORMED as error:
            reason = self._explain(buffer, position, end) or f"{self.title}: {error}"
            raise ProtocolViolation(f"malformed {reason}") from error
        return request

    def _explain(self, buffer: bytearray, position: int, end: int) -> str | None:
        """Return the position and the kind of an error in a body in one line, None if unknown."""
        if end - position > _MAX_EXPLAINED_BYTES:
            return None
        from kafkalite.protocol.invalid_frames import describe_error  # noqa: PLC0415 - slow

        try:
            body = bytes(buffer[position:end])
            return describe_error("request", self.api.key, self.version, body)
        except (OSError, LookupError, ValueError):
            return None  # the specs are not available: use the parser's message

    @property
    def title(self) -> str:
        """The API and version for error messages."""
        return f"{self.api.name} v{self.version}"


def _any_of(conditions: Sequence[Condition]) -> Condition:
    """Return whether any of some conditions applies."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda call, request: any(each(call, request) for each in conditions)


def create_route(api: Api, version: int) -> Route:
    """Return the route of a version that the API serves; the caller must call `compose`."""
    key = api.key
    is_flexible = codec.is_flexible(key, version)
    return Route(
        parse=codec.request_parser(key, version),
        handler=api.handler,
        build=codec.response_builder(key, version),
        pack_header=response_header_packer(key, is_flexible=is_flexible),
        is_flexible=is_flexible,
        version=version,
        era=None if api.eras is None else api.eras.at(version),
        lift=api.lift,
        lower=api.lower,
        is_batched=api.is_batched,
        inline_bytes=api.inline_bytes,
        is_inline_with_short_lists=api.is_inline_with_short_lists,
        may_take_long=api.may_take_long,
        api=api,
    )


def unsupported_version_route(api: Api, version: int) -> Route:
    """Return the route that reports the served versions to a client of a later Kafka (KIP-511).

    The body is not read, because its format is unknown; the answer has version 0. No step is
    called, because there is no decoded request.
    """

    def refuse(_: Call, request: object) -> object:
        return api.refuse(request, ErrorCode.UNSUPPORTED_VERSION, None)

    return Route(
        parse=lambda _buffer, _position, end: (None, end),
        handler=refuse,
        build=codec.response_builder(api.key, 0),
        pack_header=pack_response_header_v0,
        is_flexible=version >= API_VERSIONS_FLEXIBLE_FROM,
        version=version,
        era=None,
        lift=None,
        lower=None,
        is_batched=False,
        inline_bytes=1 << 31,
        is_inline_with_short_lists=False,
        may_take_long=None,
        api=api,
    )


def _joined_builder(build: Callable[[Any, JoinedPieces], None]) -> Callable[[Any, Pieces], None]:
    """Return a function that builds a long message in few pieces."""

    def build_joined(message: object, out: Pieces) -> None:
        pieces = JoinedPieces()
        build(message, pieces)
        pieces.join()
        out += pieces

    return build_joined


def _set_client_id(
    context: ConnectionContext, name: bytearray | int, position: int, end: int
) -> None:
    """Set the client id of the next requests from its UTF-8 bytes, or from a length below 1."""
    if position > end:
        raise ProtocolViolation("the client id is longer than the frame")
    if isinstance(name, int):
        context.set_client_id(None if name < 0 else "", name)
    else:
        # Intern: many clients have the same id.
        context.set_client_id(intern(name.decode(errors="replace")), bytes(name))
