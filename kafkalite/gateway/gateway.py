"""Gateway: serves requests by their routes, and installs steps around handlers.

A request is passed to the responder if one is installed. Otherwise it is decoded, lifted to the
structure of the latest version, handled inside the installed steps, lowered and encoded; see
`gateway.route`.

Three kinds of errors are distinguished here and nowhere else: a KafkaError is answered in the API's
own fields; a ProtocolViolation closes the connection; any other exception is a bug, which is
reported and answered with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from functools import partial
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.group_commit import CommitWindow
from kafkalite.gateway.error_messages import truncate_message, truncate_messages
from kafkalite.gateway.refusals import JOURNALED, report_refusals
from kafkalite.gateway.repeated import MAX_REPEATED_BYTES, Repeated
from kafkalite.gateway.route import route_of, unsupported_api_versions
from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.ports import turns
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol.api_names import not_served_message
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
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.refusals import RefusalObserver
    from kafkalite.gateway.responder import Responder
    from kafkalite.gateway.route import Route
    from kafkalite.gateway.steps import Step
    from kafkalite.wire.session import Outcome, Pieces

_PLACEHOLDER = b""
_INT16_MAX = 0x7FFF

_LONG_BYTES = 32 * 1024
"""Longer requests are parsed, and their answers built, with pauses for other requests."""

_MAX_BATCHED = 256
"""Maximum number of requests of a connection that are written to the groups' log together."""


class Gateway:
    """Serves the APIs that `find_api(key)` returns.

    `report_fault(api, exception)` is called for every exception that is a bug of this broker.

    Batched requests join their writes in the `window` of the group coordinator. With a window, the
    caller must call `flush` when all requests that arrived together have been served.
    """

    __slots__ = (
        "_deferred", "_find_api", "_inline", "_installed", "_report_fault", "_responder", "_routes",
        "_window", "refusal_observers",
    )  # fmt: skip

    def __init__(
        self,
        find_api: Callable[[int], Api | None],
        report_fault: Callable[[Api, Exception], None],
        window: CommitWindow | None = None,
    ) -> None:
        self._find_api = find_api
        self._window = window or CommitWindow()
        self._deferred: list[Deferred] = []
        """Answers that depend on pending batches, and later answers, in order."""
        self._report_fault = report_fault
        self._routes: dict[int, Route] = {}
        self._inline = self._routes
        """The routes that `serve` uses; empty while a responder is installed."""
        self._responder: Responder | None = None
        self._installed: list[tuple[StepOrder, Step]] = []
        self.refusal_observers: list[RefusalObserver] = [*JOURNALED]
        """Called with each refusal; can be changed while clients are connected."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The installed steps, the outermost first."""
        return tuple(step for _, step in self._installed)

    def find_api(self, key: int) -> Api | None:
        """Return an API as it is served; None if it is not served."""
        return self._find_api(key)

    def install(self, step: Step, order: StepOrder = StepOrder.FAULTS) -> None:
        """Call a step for every request whose handler has not been called yet.

        Of steps with the same order, the one installed first is the outermost. A step that is
        installed already is ignored.
        """
        if step not in self.steps:
            self._installed.append((order, step))
            self._installed.sort(key=lambda each: each[0])
            self._compose()

    def remove(self, step: Step) -> None:
        """Remove a step; requests that it already handles are not interrupted.

        A step that is not installed is ignored.
        """
        if step in self.steps:
            self._installed = [each for each in self._installed if each[1] is not step]
            self._compose()

    def install_responder(self, responder: Responder) -> None:
        """Pass every request to a responder first, from the next one on.

        Raises RuntimeError if a responder is installed already.
        """
        if self._responder is not None:
            raise RuntimeError("another responder is installed already")
        self._responder = responder
        self._inline = {}
        self._compose()

    def remove_responder(self, responder: Responder) -> None:
        """Serve all requests by their routes again; ignored if the responder is not installed."""
        if self._responder is responder:
            self._responder = None
            self._inline = self._routes
            self._compose()
            responder.close()

    def close(self) -> None:
        """Remove the responder, if any, after the last client has disconnected."""
        if self._responder is not None:
            self.remove_responder(self._responder)

    def _compose(self) -> None:
        for route in self._routes.values():
            route.compose(self.steps, may_repeat=self._responder is None)

    def serve(  # noqa: C901 - called for every request
        self, call: Call, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> Outcome:
        """Serve the request between `start` and `end`: see `SessionSettings.serve`."""
        repeated = call.repeated
        if (
            repeated is not None
            and buffer[start + CORRELATION_END : end] == repeated.tail
            and buffer[start : start + CORRELATION_START] == (route := repeated.route).repeated_head
        ):
            request = repeated.request
        else:
            repeated = None
            route, request = self._read(call, buffer, start, end)
        call.api_version, call.era = route.version, route.era
        window, is_batched, flushed = self._window, route.is_batched, 0
        if is_batched:
            window.is_open, window.request_bytes = True, end - start
        elif window.is_open:
            flushed = self.flush(out)
        try:
            if route.lift is not None and repeated is None:
                request = route.lift(request, route.version)
            answer = route.handler(call, request)
        except KafkaError as refusal:
            answer = refusal.without_traceback()
        except ProtocolViolation:
            raise
        except Exception as error:  # noqa: BLE001 - a bug must not affect other clients
            answer = self._answer_to_bug(route, error)
        correlation = buffer[start + CORRELATION_START : start + CORRELATION_END]
        if repeated is not None and answer is repeated.answer:
            frame = repeated.answer_head + correlation + repeated.answer_tail
            out.append(frame)
            return flushed + len(frame)
        correlation_id = int.from_bytes(correlation, "big", signed=True)
        if is_batched or answer.__class__ is Waiting:
            finish = partial(self._encode, call, route, correlation_id, request)
            if is_batched:
                return self._defer(answer, finish, out)
            return PendingAnswer(answer, finish, flushed)
        first_piece = len(out)
        size = self._encode(call, route, correlation_id, request, answer, out)
        if route.repeated_head and size and end - start <= MAX_REPEATED_BYTES:
            repeated = repeated or Repeated(route, request, bytes(buffer[start:end]))
            repeated.keep(answer, b"".join(out[first_piece:]))
            call.repeated = repeated
        return flushed + size

    def serve_in_steps(
        self, call: Call, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> Outcome:
        """Serve a request in a worker: as `serve`, but also requests that may take long."""
        if self._responder is not None:
            answer = self._responder.respond(call, buffer, start, end, out)
            return self._serve_long(call, buffer, start, end, out) if answer is None else answer
        try:
            return self.serve(call, buffer, start, end, out)
        except turns.NeedsWorkerError:
            return self._serve_long(call, buffer, start, end, out)

    def _serve_long(
        self, call: Call, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> Outcome:
        """Serve a request that may take long, with other requests in between.

        Its changes are appended immediately, not together with those of other requests.
        """
        if end - start < HEADER_BYTES:
            raise _too_short(end - start)
        flushed = self.flush(out)
        call.may_pause = True
        pauses = turns.pauses
        try:
            key_and_version, correlation_id, client_id_length = unpack_header(buffer, start)
            route = self._routes.get(key_and_version) or self._find(key_and_version)
            is_long = end - start > _LONG_BYTES
            if is_long:
                route = route.in_steps()
                turns.admit(end - start)
            request = route.read(call, buffer, start, end, client_id_length)
            answer = self._answered(call, route, request)
            if turns.pauses != pauses and not is_long:
                is_long = True  # a request that took long may have a long answer
                route = route.in_steps()
            if answer.__class__ is Waiting:
                finish = partial(self._encode, call, route, correlation_id, request)
                return PendingAnswer(answer, finish, flushed)
            size = self._encode(call, route, correlation_id, request, answer, out)
            if is_long:
                free_in_steps(request)
                free_in_steps(answer)
            return flushed + size
        finally:
            call.may_pause = False

    def _answered(self, call: Call, route: Route, request: object) -> object:
        """Return the answer to a request, or the KafkaError that refuses it."""
        call.api_version = route.version
        call.era = route.era
        try:
            if route.lift is not None:
                request = route.lift(request, route.version)
            return route.handler(call, request)
        except KafkaError as refusal:
            return refusal.without_traceback()
        except ProtocolViolation:
            raise
        except Exception as error:  # noqa: BLE001 - a bug must not affect other clients
            return self._answer_to_bug(route, error)

    def _answer_to_bug(self, route: Route, error: Exception) -> KafkaError:
        self._report_fault(route.api, error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def handle(self, call: Call, key: int, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        """Return the response to a request object, or a Waiting for it.

        Both have the structure of the latest version; otherwise the request is served like that of
        a client. Raises KafkaError UNSUPPORTED_VERSION if the API is not served, NETWORK_EXCEPTION
        if a step closes the connection. Without an answer, the Waiting remains unresolved.
        """
        api = self._find_api(key)
        if api is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        key_and_version = key << 16 | api.versions.highest
        route = self._routes.get(key_and_version) or self._find(key_and_version)
        call.api_version = route.version
        call.era = route.era

        def refuse(error: Exception) -> Any:  # noqa: ANN401 - as above
            try:
                return self._refuse(call, route, request, error)
            except DisconnectError as lost:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, lost.reason) from lost

        try:
            answer = turns.without_pauses(partial(route.handler, call, request))
        except Exception as error:  # noqa: BLE001 - a bug must not affect the other node
            return refuse(error.with_traceback(None))
        if answer is None:
            return Waiting()
        return chain(answer, lambda response: response, refuse)

    def flush(self, out: Pieces) -> int:
        """Append the changes of batched requests, and add their answers.

        See `SessionSettings.flush`. If the log refuses the batch, its requests are refused.
        """
        window = self._window
        if not window.is_open:
            return 0
        deferred, self._deferred = self._deferred, []
        window.flush()
        size = 0
        # No batch is pending from here on: other requests may be served while answers are built.
        for each in deferred:
            size += each.finish(each.value, out)
        return size

    def _defer(
        self, answer: object, finish: Callable[[object, Pieces], int], out: Pieces
    ) -> int | Deferred:
        """Defer an answer until the batch that it depends on is in the log, if there is one."""
        window = self._window
        if window.joined_batch is None and not self._deferred:
            return finish(answer, out)
        deferred = Deferred(answer, window.joined_batch, finish)
        window.joined_batch = None
        self._deferred.append(deferred)
        return self.flush(out) if len(self._deferred) >= _MAX_BATCHED else deferred

    def _read(self, call: Call, buffer: bytearray, start: int, end: int) -> tuple[Route, object]:
        """Return the request between `start` and `end`, and set the client id of `call`.

        Raises NeedsWorkerError for a request that may take long.
        """
        if end - start < HEADER_BYTES:
            raise _too_short(end - start)
        key_and_version, _, client_id_length = unpack_header(buffer, start)
        route = self._inline.get(key_and_version) or self._find_inline(key_and_version)
        if end - start > route.inline_bytes:
            route = route.for_short_lists()
        request = route.read(call, buffer, start, end, client_id_length)
        if route.may_take_long is not None and route.may_take_long(call, request):
            raise turns.NeedsWorkerError
        return route, request

    def _encode(  # noqa: PLR0917 - the local variables of `serve`
        self,
        call: Call,
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
                answer = self._refuse(call, route, request, answer)
            if answer is None:
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
        except DisconnectError:
            raise
        except Exception as error:
            del out[first_piece:]
            self._report_fault(route.api, error)
            raise ProtocolViolation(f"{route.title} failed because of a bug") from error
        body_bytes = sum(map(len, out[first_piece + 1 :]))
        out[first_piece] = head = route.head(body_bytes, correlation_id)
        return len(head) + body_bytes

    def _refuse(self, call: Call, route: Route, request: object, error: Exception) -> object:
        """Return the response to a request that failed with an error."""
        if isinstance(error, DisconnectError):
            raise error
        if not isinstance(error, KafkaError):
            error = self._answer_to_bug(route, error)
        report_refusals(call, route.api.name, error, request)
        return route.api.refuse(request, error.code, truncate_message(error.message))

    def _find_inline(self, key_and_version: int) -> Route:
        """Return the route of a request that is served when it is read.

        Raises NeedsWorkerError while a responder, which may take long, is installed.
        """
        if self._responder is not None:
            raise turns.NeedsWorkerError
        return self._find(key_and_version)

    def _find(self, key_and_version: int) -> Route:
        """Return the route of an API version that is requested for the first time."""
        key, version = _signed(key_and_version >> 16), _signed(key_and_version & 0xFFFF)
        api = self._find_api(key)
        if api is None:
            raise ProtocolViolation(not_served_message(key))
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise ProtocolViolation(f"{api.name} v{version} is not served")
            return unsupported_api_versions(api, version)
        route = self._routes[key_and_version] = route_of(api, version)
        route.compose(self.steps, may_repeat=self._responder is None)
        return route


def _too_short(length: int) -> ProtocolViolation:
    return ProtocolViolation(f"a frame of {length} bytes is too short for a header")


def _signed(number: int) -> int:
    """Return the signed int16 with the same bits."""
    return number - (1 << 16) if number > _INT16_MAX else number
