"""Gateway: serves requests by their routes, and installs steps around handlers.

A request is first passed to the responder, if one is installed. If the responder does not answer
it, the request is decoded, lifted to the structure of the latest version, handled inside the
installed steps, lowered and encoded; see `gateway.route`.

Three kinds of errors are distinguished here, and in `gateway.deferred_request` for requests that
are handled later: a KafkaError is answered in the API's own fields; a ProtocolViolation closes the
connection; any other exception is a bug, which is reported and answered with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from functools import partial
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.group_commit import CommitWindow
from kafkalite.gateway.call import Call
from kafkalite.gateway.error_messages import truncate_message, truncate_messages
from kafkalite.gateway.refusals import report_refusal_of_request, warn_about_denial
from kafkalite.gateway.repeated import MAX_REPEATED_BYTES, RepeatedRequest
from kafkalite.gateway.route import create_route, unsupported_version_route
from kafkalite.gateway.steps import AlteredAnswer, DisconnectError, StepOrder
from kafkalite.ports import turns
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol.api_names import known_api_name, not_served_message
from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.long_messages import free_in_steps
from kafkalite.wire.headers import (
    CORRELATION_END,
    CORRELATION_START,
    HEADER_BYTES,
    unpack_header,
)
from kafkalite.wire.session import Deferred, PendingAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.gateway.exchanges import Exchange, Observer, Observers
    from kafkalite.gateway.responder import Responder, ResponderAnswer
    from kafkalite.gateway.route import Route
    from kafkalite.gateway.steps import Step
    from kafkalite.wire.session import Pieces, ServeResult

_PLACEHOLDER = b""
_INT16_MAX = 0x7FFF

_MAX_BYTES_WITHOUT_PAUSES = 32 * 1024
"""Longer requests are parsed, and their answers built, with pauses for other requests."""

_MAX_DEFERRED_ANSWERS = 256
"""Maximum number of requests of a connection that are written to the groups' log together."""


class Gateway:
    """Serves the APIs that `find_api(key)` returns.

    `report_bug(name of the API, exception)` is called for every exception that is a bug of this
    broker.

    The writes of batched requests are collected in `window`, that of the group coordinator. With a
    window, the caller must call `flush` when all requests that arrived together have been served.
    """

    __slots__ = (
        "_deferred", "_find_api", "_inline_routes", "_installed", "_internal_routes",
        "_observers", "_own_steps", "_report_bug", "_responder", "_routes", "_window",
        "reason_not_served",
    )  # fmt: skip

    def __init__(
        self,
        find_api: Callable[[int], Api | None],
        report_bug: Callable[[str, Exception], None],
        window: CommitWindow | None = None,
    ) -> None:
        self._find_api = find_api
        self._window = window or CommitWindow()
        self._deferred: list[Deferred] = []
        """Answers that depend on pending batches, and later answers, in order."""
        self._report_bug = report_bug
        self._routes: dict[int, Route] = {}
        self._inline_routes = self._routes
        """The routes that `serve` uses; empty while a responder is installed."""
        self._internal_routes: dict[int, Route] = {}
        """By API key, the routes that `handle` uses."""
        self._responder: Responder | None = None
        self._installed: list[tuple[StepOrder, Step]] = []
        self._own_steps: dict[StepOrder, Step | None] = {}
        """The steps of `set_step`."""
        self._observers: Observers | None = None
        """Those that get the exchanges of requests; None without any."""
        self.reason_not_served: Callable[[int], str] | None = None
        """(API key) → why the API, or a version of it, is not served; empty if unknown."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The installed steps, the outermost first."""
        return tuple(step for _, step in self._installed)

    def find_api(self, key: int) -> Api | None:
        """Return an API as it is served; None if it is not served."""
        return self._find_api(key)

    def install(self, step: Step, order: StepOrder = StepOrder.FAULTS) -> None:
        """Install a step for all requests whose handler has not been called yet.

        Of steps with the same order, the one installed first is the outermost. A step that is
        installed already is ignored.
        """
        if step not in self.steps:
            self._installed.append((order, step))
            self._installed.sort(key=lambda each: each[0])
            self._compose_routes()

    def remove(self, step: Step) -> None:
        """Remove a step; requests that it already handles are not interrupted.

        A step that is not installed is ignored.
        """
        if step in self.steps:
            self._installed = [each for each in self._installed if each[1] is not step]
            self._compose_routes()

    def set_step(self, order: StepOrder, step: Step | None) -> None:
        """Install a step, or none, in place of the last one that was set for this order."""
        before = self._own_steps.get(order)
        self._own_steps[order] = step
        if before is not None and before is not step:
            self.remove(before)
        if step is not None:
            self.install(step, order)

    def subscribe(self, observer: Observer) -> None:
        """Call `observer` with the exchange of each request that a client sends from now on.

        Observers are called in the order in which they subscribed. One that has subscribed already
        is ignored.
        """
        observers = self._subscribed()
        if observer not in observers:
            self._set_observers((*observers, observer))

    def unsubscribe(self, observer: Observer) -> None:
        """Stop calling an observer, except for requests whose answers are pending.

        An observer that has not subscribed is ignored.
        """
        observers = self._subscribed()
        if observer in observers:
            self._set_observers(tuple(each for each in observers if each != observer))

    def _subscribed(self) -> tuple[Observer, ...]:
        return () if self._observers is None else self._observers.functions

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        from kafkalite.gateway.exchanges import Observers  # noqa: PLC0415 - rarely used

        self._observers = Observers(observers, self._report_observer) if observers else None

    def _report_observer(self, key: int, error: Exception) -> None:
        self._report_bug(known_api_name(key) or str(key), error)

    def install_responder(self, responder: Responder) -> None:
        """Pass every request to a responder first, from the next one on.

        Raises RuntimeError if a responder is installed already.
        """
        if self._responder is not None:
            raise RuntimeError("another responder is installed already")
        self._responder = responder
        self._inline_routes = {}
        self._compose_routes()

    def remove_responder(self, responder: Responder) -> None:
        """Serve all requests by their routes again; ignored if the responder is not installed."""
        if self._responder is responder:
            self._responder = None
            self._inline_routes = self._routes
            self._compose_routes()
            responder.close()

    def close(self) -> None:
        """Remove the responder, if any, after the last client has disconnected."""
        if self._responder is not None:
            self.remove_responder(self._responder)

    def _compose_routes(self) -> None:
        for route in self._routes.values():
            self._compose(route)

    def _compose(self, route: Route) -> None:
        route.compose(self.steps, may_repeat=self._responder is None)

    def serve(  # noqa: C901 - called for every request
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> ServeResult:
        """Serve the request between `start` and `end`: see `SessionSettings.serve`."""
        repeated = context.repeated
        if (
            repeated is not None
            and end - start == repeated.size_bytes
            and buffer[start + CORRELATION_END : end] == repeated.suffix
            and buffer[start : start + CORRELATION_START]
            == (route := repeated.route).repeated_prefix
        ):
            call, request = repeated.call, repeated.request
        else:
            repeated = None
            route, call, request = self._read_request(context, buffer, start, end)
        window, is_batched, flushed_bytes = self._window, route.is_batched, 0
        if is_batched:
            window.is_open, window.request_bytes = True, end - start
        elif window.is_open:
            flushed_bytes = self.flush(out)
        exchange = None
        if self._observers is not None:
            is_in_batch = bool(self._deferred)
            exchange = self._observers.begin(context, buffer, start, end, request, is_in_batch)
        try:
            if route.lift is not None and repeated is None:
                request = route.lift(request, route.version)
            answer = route.handler(call, request)
        except Exception as error:  # noqa: BLE001 - a bug must not affect other clients
            answer = self._answer_to_error(route, exchange, error)
        correlation = buffer[start + CORRELATION_START : start + CORRELATION_END]
        if repeated is not None and answer is repeated.answer:
            frame = repeated.answer_prefix + correlation + repeated.answer_suffix
            out.append(frame)
            if exchange is not None:
                exchange.end([frame], len(frame))
            return flushed_bytes + len(frame)
        correlation_id = int.from_bytes(correlation, "big", signed=True)
        if is_batched:
            return self._defer(call, exchange, route, correlation_id, request, answer, out)
        if answer.__class__ is Waiting:
            return self._wait(call, exchange, route, correlation_id, request, answer, flushed_bytes)
        first_piece = len(out)
        size = self._encode(call, exchange, route, correlation_id, request, answer, out)
        if route.repeated_prefix and size and end - start <= MAX_REPEATED_BYTES:
            repeated = repeated or RepeatedRequest(route, call, request, bytes(buffer[start:end]))
            context.repeated = repeated.with_answer(answer, b"".join(out[first_piece:]))
        return flushed_bytes + size

    def serve_in_worker(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> ServeResult:
        """Do the same as `serve`, also for a request that may take long; called in a worker."""
        if self._responder is not None:
            answer = self._responder.respond(context, buffer, start, end)
            if answer is None:
                return self._serve_long(context, buffer, start, end, out)
            return self._answer_by_responder(answer, context, buffer, start, end, out)
        try:
            return self.serve(context, buffer, start, end, out)
        except turns.NeedsWorkerError:
            pass
        # Not in the `except` clause: errors of a long request would refer to the exception, whose
        # traceback refers to the frames with the request and the answer.
        return self._serve_long(context, buffer, start, end, out)

    def _answer_by_responder(  # noqa: PLR0917 - the answer, and the parameters of `serve`
        self,
        answer: ResponderAnswer,
        context: ConnectionContext,
        buffer: bytearray,
        start: int,
        end: int,
        out: Pieces,
    ) -> ServeResult:
        request, response, build = answer
        exchange = self._begin_exchange(context, buffer, start, end, request)

        def encode(response: object, out: Pieces) -> int:
            first_piece = len(out)
            size = 0 if response is None else build(response, out)
            if exchange is not None:
                exchange.end(out[first_piece:], size, response)
            return size

        if response.__class__ is not Waiting:
            return encode(response, out)
        return _pending_answer(response, encode, exchange)

    def _serve_long(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> ServeResult:
        """Serve a request that may take long, with pauses for other requests.

        The changes of this request are appended immediately, not in a batch with those of others.
        """
        if end - start < HEADER_BYTES:
            raise _too_short_violation(end - start)
        flushed_bytes = self.flush(out)
        pauses = turns.pause_count
        key_and_version, correlation_id, client_id_length = unpack_header(buffer, start)
        route = self._routes.get(key_and_version) or self._create_route(key_and_version)
        is_long = end - start > _MAX_BYTES_WITHOUT_PAUSES
        if is_long:
            route = route.for_long_messages()
            turns.wait_for_memory(end - start)
        # Of a shorter request, no list has enough elements for a pause.
        may_pause = end - start > turns.ELEMENTS_PER_PAUSE
        reader = route.for_long_messages() if may_pause else route
        request = reader.read(context, buffer, start, end, client_id_length)
        call = Call(
            context,
            api_version=route.version,
            era=route.era,
            request_bytes=end - start,
            may_pause=True,
        )
        exchange = self._begin_exchange(context, buffer, start, end, request)
        lifted, answer = self._call_handler(call, exchange, route, request)
        if turns.pause_count != pauses and not is_long:
            is_long = True  # a request that took long may have a long answer
            route = route.for_long_messages()
        if answer.__class__ is Waiting:
            return self._wait(call, exchange, route, correlation_id, lifted, answer, flushed_bytes)
        size = self._encode(call, exchange, route, correlation_id, lifted, answer, out)
        if is_long:
            free_in_steps(request)
            free_in_steps(lifted)
            free_in_steps(answer)
        return flushed_bytes + size

    def serve_authentication(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> ServeResult:
        """Do the same as `serve` for a request that is not passed to the responder.

        The request is not batched and does not take long.
        """
        call, exchange, route, correlation_id, request = self._read_directly(
            context, buffer, start, end
        )
        request, answer = self._call_handler(call, exchange, route, request)
        if answer.__class__ is Waiting:
            return self._wait(call, exchange, route, correlation_id, request, answer)
        return self._encode(call, exchange, route, correlation_id, request, answer, out)

    def _wait(  # noqa: PLR0917 - the parameters of `_encode`
        self,
        call: Call,
        exchange: Exchange | None,
        route: Route,
        correlation_id: int,
        request: object,
        answer: Any,  # noqa: ANN401 - a Waiting for any response
        flushed_bytes: int = 0,
    ) -> PendingAnswer:
        encode = partial(self._encode, call, exchange, route, correlation_id, request)
        return _pending_answer(answer, encode, exchange, flushed_bytes)

    def refuse(  # noqa: PLR0917 - the parameters of `serve`, and the error
        self,
        context: ConnectionContext,
        buffer: bytearray,
        start: int,
        end: int,
        out: Pieces,
        error: KafkaError,
    ) -> int:
        """Answer a request with an error, and return the size of the answer.

        Raises ProtocolViolation for a request that cannot be answered.
        """
        call, exchange, route, correlation_id, request = self._read_directly(
            context, buffer, start, end
        )
        if route.lift is not None:
            request = route.lift(request, route.version)
        return self._encode(call, exchange, route, correlation_id, request, error, out)

    def _read_directly(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int
    ) -> tuple[Call, Exchange | None, Route, int, object]:
        """Return the first arguments of `_encode` for a request, which may be long."""
        key_and_version, correlation_id, client_id_length = unpack_header(buffer, start)
        route = self._routes.get(key_and_version) or self._create_route(key_and_version)
        request = route.read(context, buffer, start, end, client_id_length)
        call = context.call(route.version, route.era, end - start)
        exchange = self._begin_exchange(context, buffer, start, end, request)
        return call, exchange, route, correlation_id, request

    def _begin_exchange(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, request: object
    ) -> Exchange | None:
        """Return the exchange of a request; None without observers."""
        observers = self._observers
        return None if observers is None else observers.begin(context, buffer, start, end, request)

    def _call_handler(
        self, call: Call, exchange: Exchange | None, route: Route, request: object
    ) -> tuple[object, object]:
        """Return the lifted request, and the answer to it or the KafkaError that refuses it."""
        try:
            if route.lift is not None:
                request = route.lift(request, route.version)
            return request, route.handler(call, request)
        except Exception as error:  # noqa: BLE001 - a bug must not affect other clients
            return request, self._answer_to_error(route, exchange, error)

    def _answer_to_error(
        self, route: Route, exchange: Exchange | None, error: Exception
    ) -> KafkaError:
        """Return the refusal for an exception of a handler; raise a ProtocolViolation."""
        if isinstance(error, KafkaError):
            return error.without_traceback()
        if isinstance(error, ProtocolViolation):
            _close(exchange, error.reason)
            raise error
        return self._answer_to_bug(route, error)

    def _answer_to_bug(self, route: Route, error: Exception) -> KafkaError:
        self._report_bug(route.api.name, error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def handle(self, context: ConnectionContext, key: int, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        """Return the response to a request object, or a Waiting for it.

        Both have the structure of the latest version. Otherwise the request is served like that of
        a client. Raises KafkaError UNSUPPORTED_VERSION if the API is not served, NETWORK_EXCEPTION
        if a step closes the connection. If the handler returns no answer, the Waiting is never
        resolved.
        """
        route = self._internal_routes.get(key) or self._create_internal_route(key)
        call = context.call(route.version, route.era, 0)

        def refuse(error: Exception) -> Any:  # noqa: ANN401 - as above
            try:
                return self._refuse(call, route, request, error)
            except DisconnectError as disconnect:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, disconnect.reason) from disconnect

        try:
            answer = turns.without_pauses(partial(route.handler, call, request))
        except Exception as error:  # noqa: BLE001 - a bug must not affect the other node
            return refuse(error.with_traceback(None))
        if answer is None:
            return Waiting()
        if answer.__class__ is not Waiting:
            return answer
        return chain(answer, lambda response: response, refuse)

    def _create_internal_route(self, key: int) -> Route:
        """Return the route of an API that `handle` uses for the first time; see its errors."""
        api = self._find_api(key)
        if api is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        key_and_version = key << 16 | api.versions.highest
        route = self._routes.get(key_and_version) or self._create_route(key_and_version)
        self._internal_routes[key] = route
        return route

    def flush(self, out: Pieces) -> int:
        """Append the changes of batched requests, and add their answers.

        See `SessionSettings.flush`. If the log refuses the batch, its requests are refused.
        """
        window = self._window
        if not window.is_open:
            return 0
        deferred, self._deferred = self._deferred, []
        window.flush()
        size, observers = 0, self._observers
        if observers is not None:
            observers.batch_ms = 0
        # No batch is pending from here on: other requests may be served while answers are built.
        try:
            for each in deferred:
                size += each.encode(each.value, out)
        finally:
            if observers is not None:
                observers.batch_ms = None
        return size

    def _defer(  # noqa: PLR0917 - the parameters of `_encode`
        self,
        call: Call,
        exchange: Exchange | None,
        route: Route,
        correlation_id: int,
        request: object,
        answer: object,
        out: Pieces,
    ) -> int | Deferred:
        """Defer an answer until the batch that it depends on is in the log, if there is one."""
        window = self._window
        if window.joined_batch is None and not self._deferred:
            return self._encode(call, exchange, route, correlation_id, request, answer, out)
        encode = partial(self._encode, call, exchange, route, correlation_id, request)
        deferred = Deferred(answer, window.joined_batch, encode)
        window.joined_batch = None
        self._deferred.append(deferred)
        if len(self._deferred) >= _MAX_DEFERRED_ANSWERS:
            return self.flush(out)
        return deferred

    def _read_request(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int
    ) -> tuple[Route, Call, object]:
        """Return the request between `start` and `end`, and set the client id of `context`.

        Raises NeedsWorkerError for a request that may take long.
        """
        if end - start < HEADER_BYTES:
            raise _too_short_violation(end - start)
        key_and_version, _, client_id_length = unpack_header(buffer, start)
        route = self._inline_routes.get(key_and_version) or self._create_inline_route(
            key_and_version
        )
        if end - start > route.inline_bytes:
            route = route.for_short_lists()
        request = route.read(context, buffer, start, end, client_id_length)
        call = context.latest_call
        if (  # as in `ConnectionContext.call`, for speed
            call.request_bytes != end - start
            or call.era is not route.era
            or call.api_version != route.version
        ):
            call = context.call(route.version, route.era, end - start)
        if route.may_take_long is not None and route.may_take_long(call, request):
            raise turns.NeedsWorkerError
        if route.undisturbed_route is not None:
            assert route.is_disturbed is not None
            if not route.is_disturbed(call, request):
                route = route.undisturbed_route
        return route, call, request

    def _encode(  # noqa: C901, PLR0917 - called for every request, with the variables of `serve`
        self,
        call: Call,
        exchange: Exchange | None,
        route: Route,
        correlation_id: int,
        request: object,
        answer: object,
        out: Pieces,
    ) -> int:
        """Add the answer's frame to `out` and return its size; an exception becomes a refusal."""
        first_piece = len(out)
        try:
            if isinstance(answer, Exception):
                if isinstance(answer, AlteredAnswer):
                    encode = self._encode_altered
                    return encode(call, exchange, route, correlation_id, request, answer, out)
                call.context.exchange = exchange  # a later request may have been read
                answer = self._refuse(call, route, request, answer)
            if answer is None:
                if exchange is not None:
                    exchange.end([], 0)
                return 0
            if route.lower is not None:
                answer = route.lower(answer, route.version)
            out.append(_PLACEHOLDER)
            try:
                route.build(answer, out)
            except (StructError, ProtocolViolation):
                if not truncate_messages(answer):
                    raise
                del out[first_piece + 1 :]
                route.build(answer, out)
        except DisconnectError as violation:
            _close(exchange, violation.reason)
            raise
        except Exception as error:
            del out[first_piece:]
            self._report_bug(route.api.name, error)
            reason = f"{route.title} failed because of a bug"
            _close(exchange, reason)
            raise ProtocolViolation(reason) from error
        body_bytes = sum(map(len, out[first_piece + 1 :]))
        out[first_piece] = header = route.pack_header(body_bytes, correlation_id)
        size = len(header) + body_bytes
        if exchange is not None:
            if size <= _MAX_BYTES_WITHOUT_PAUSES:
                out[first_piece:] = (b"".join(out[first_piece:]),)  # for the exchange, and to send
            exchange.end(out[first_piece:], size, answer)
        return size

    def _encode_altered(  # noqa: PLR0917 - as above
        self,
        call: Call,
        exchange: Exchange | None,
        route: Route,
        correlation_id: int,
        request: object,
        altered: AlteredAnswer,
        out: Pieces,
    ) -> int:
        """Add the altered frame of an answer to `out` and return its size.

        Raises DisconnectError if the connection is closed after it.
        """
        pieces: Pieces = []
        is_last = altered.closing_reason is not None
        self._encode(
            call,
            None if is_last else exchange,
            route,
            correlation_id,
            request,
            altered.answer,
            pieces,
        )
        frame = altered.alter(b"".join(pieces))
        out.append(frame)
        if altered.closing_reason is not None:
            raise DisconnectError(altered.closing_reason)
        return len(frame)

    def _refuse(self, call: Call, route: Route, request: object, error: Exception) -> object:
        """Return the response to a request that failed with an error."""
        if isinstance(error, DisconnectError):
            raise error
        if not isinstance(error, KafkaError):
            error = self._answer_to_bug(route, error)
        warn_about_denial(call, route.api.name, error)
        report_refusal_of_request(call, route.api.name, error, request)
        return route.api.refuse(request, error.code, truncate_message(error.message))

    def _create_inline_route(self, key_and_version: int) -> Route:
        """Return the route of a request that is served when it is read.

        Raises NeedsWorkerError while a responder, which may take long, is installed.
        """
        if self._responder is not None:
            raise turns.NeedsWorkerError
        return self._create_route(key_and_version)

    def _create_route(self, key_and_version: int) -> Route:
        """Return the route of an API version that is requested for the first time."""
        key, version = _to_int16(key_and_version >> 16), _to_int16(key_and_version & 0xFFFF)
        api = self._find_api(key)
        if api is None:
            raise self._violation(key, not_served_message(key))
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise self._violation(key, f"{api.name} v{version} is not served")
            return unsupported_version_route(api, version)
        route = self._routes[key_and_version] = create_route(api, version)
        self._compose(route)
        return route

    def _violation(self, key: int, message: str) -> ProtocolViolation:
        """Return the violation of a request for an API, or a version of it, that is not served."""
        reason = "" if self.reason_not_served is None else self.reason_not_served(key)
        return ProtocolViolation(f"{message}: {reason}" if reason else message)


def _close(exchange: Exchange | None, reason: str) -> None:
    """Give the exchange of a request to its observers, if any: the connection is closed."""
    if exchange is not None:
        exchange.close(reason)


def _pending_answer(
    answer: Any,  # noqa: ANN401 - a Waiting for any response
    encode: Callable[[Any, Pieces], int],
    exchange: Exchange | None,
    flushed_bytes: int = 0,
) -> PendingAnswer:
    """Give the exchange without the answer to the observers of a request, if any, and wait."""
    if exchange is None:
        return PendingAnswer(answer, encode, flushed_bytes)
    exchange.wait()
    on_close = partial(exchange.close, "the client disconnected before the answer")
    return PendingAnswer(answer, encode, flushed_bytes, on_close)


def _too_short_violation(length: int) -> ProtocolViolation:
    return ProtocolViolation(f"a frame of {length} bytes is too short for a header")


def _to_int16(number: int) -> int:
    """Return the signed int16 with the same bits."""
    return number - (1 << 16) if number > _INT16_MAX else number
