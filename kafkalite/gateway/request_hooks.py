"""Request hooks: functions of a test that see each decoded request before the broker handles it.

A hook may answer, refuse, change, hold or drop a request. `RequestHooks` has the hooks of one
cluster, and the step that calls them; without a hook there is no step. Hooks are called on the
thread of the broker, which serves no client meanwhile. An exception of a hook is stored, and the
request is handled as without the hook.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from functools import partial
from inspect import iscoroutinefunction
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.capture.formats.kafka_json import as_json, records_as_base64
from kafkalite.capture.formats.kafka_json_reader import message_of
from kafkalite.capture.model import Direction
from kafkalite.config.typed_json import read_name
from kafkalite.gateway.deferred_request import DeferredRequest
from kafkalite.gateway.fault_rules import api_keys_by_name, error_codes_by_name
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.message import copy_views

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.protocol.error_codes import ErrorCode

MAX_ERRORS: Final = 100
"""Maximum number of exceptions of a hook that are stored."""
MAX_HOOKS: Final = 100
RULE: Final = "hook"
"""The `rule` in the facts of a refusal by a hook."""


class GivenAnswer(NamedTuple):
    """The client gets this response, and the broker does not handle the request."""

    response: Any


class GivenError(NamedTuple):
    """The client gets an error, and the broker does not handle the request."""

    code: ErrorCode


class ChangedRequest(NamedTuple):
    """The broker handles this request instead."""

    request: Any


class HeldRequest(NamedTuple):
    """The request waits until its hook releases it, or is removed."""


class DroppedRequest(NamedTuple):
    """The broker neither handles nor answers the request."""

    disconnects: bool
    """Whether the connection is closed."""


Reaction: TypeAlias = GivenAnswer | GivenError | ChangedRequest | HeldRequest | DroppedRequest
"""What a hook returns; None lets the broker handle the request."""


class Structure(NamedTuple):
    """The versions whose fields the handler of an API reads and returns."""

    key: ApiKey
    request_version: int
    response_version: int


class HookedRequest:
    """A request as a hook sees it. Its methods return what the hook may return."""

    __slots__ = ("_call", "_fields", "_request", "_structure")

    def __init__(self, structure: Structure, call: Call, request: Any) -> None:
        self._structure = structure
        self._call = call
        self._request = request
        self._fields: dict[str, Any] | None = None

    @property
    def api(self) -> str:
        """Kafka's name of the API, such as "Produce"."""
        return api_name(self._structure.key)

    @property
    def version(self) -> int:
        """The version in which the client sent the request."""
        return self._call.api_version

    @property
    def fields(self) -> dict[str, Any]:
        """The fields with Kafka's names; bytes and records are base64.

        They are those of the version of the request, or of the latest version of an API whose old
        requests the broker converts, such as LeaveGroup. Changes of the dict have no effect: pass
        it to `change`.
        """
        if self._fields is None:
            key, version, _ = self._structure
            self._fields = as_json(
                self._request, key, Direction.REQUEST, version, records=records_as_base64
            )
        return self._fields

    @property
    def client_id(self) -> str | None:
        """The client id; "broker-1" if node 1 sent the request."""
        return self._call.client_id

    @property
    def client_software(self) -> tuple[str, str] | None:
        """Name and version of the client's library; None if it did not send them."""
        return self._call.context.client_software

    @property
    def connection(self) -> str:
        """The address of the client, `host:port`, which identifies the connection."""
        connection = self._call.connection
        host = self._call.client_host.removeprefix("/")
        return host if connection is None else f"{host}:{connection.port}"

    @property
    def listener(self) -> str:
        """The name of the listener."""
        return self._call.listener

    @property
    def node(self) -> int:
        """The id of the node that received the request."""
        return self._call.node.id

    @property
    def principal(self) -> str:
        """The principal of the client, such as "User:alice"."""
        return self._call.principal

    def answer(self, fields: dict[str, Any] | None = None, *, error: str | None = None) -> Reaction:
        """Answer with these fields of the response, or refuse with an error of Kafka.

        The fields have Kafka's names; missing ones have their defaults. Raises ValueError for
        unknown fields, other values and an unknown error.
        """
        if (fields is None) is (error is None):
            raise ValueError("an answer needs either fields or error")
        if error is not None:
            return GivenError(read_name("error", error, "an error of Kafka", error_codes_by_name()))
        key, _, version = self._structure
        return GivenAnswer(message_of(fields, key, Direction.RESPONSE, version))

    def change(self, fields: dict[str, Any]) -> Reaction:
        """Let the broker handle a request with these fields; see `answer`."""
        key, version, _ = self._structure
        return ChangedRequest(message_of(fields, key, Direction.REQUEST, version))

    def hold(self) -> Reaction:
        """Let the request wait until the hook releases it, or is removed.

        It is dropped when its connection is closed.
        """
        return HeldRequest()

    def drop(self, *, disconnect: bool = False) -> Reaction:
        """Neither handle nor answer the request; with `disconnect`, close the connection."""
        return DroppedRequest(disconnect)

    def __repr__(self) -> str:
        return f"<{self.api} v{self.version} of client {self.client_id!r} at {self.connection}>"


Callback: TypeAlias = "Callable[[HookedRequest], Reaction | None]"


class RequestHook:
    """A function that sees the requests of one API, or of all, with what it did."""

    __slots__ = ("_callback", "_report", "api", "calls", "errors", "held")

    def __init__(
        self, callback: Callback, api: ApiKey | None, report: Callable[[str, BaseException], None]
    ) -> None:
        self._callback = callback
        self._report = report
        self.api = api
        self.calls = 0
        """The number of requests that the function has seen."""
        self.errors: list[BaseException] = []
        """The first MAX_ERRORS exceptions of the function that were not raised in the test yet."""
        self.held: dict[DeferredRequest[Any], None] = {}
        """The requests that wait, in the order of their arrival."""

    def handle(self, structure: Structure, handler: Handler, call: Call, request: Any) -> Any:
        """Call the function, and do with the request what it returns."""
        self.calls += 1
        key, hooked = structure.key, HookedRequest(structure, call, request)
        try:
            reaction = _checked(self._callback(hooked))
        except BaseException as error:  # noqa: BLE001 - pytest.fail raises no Exception
            if len(self.errors) < MAX_ERRORS:
                self.errors.append(error)
            self._report(api_name(key), error)
            return handler(call, request)
        if reaction is None:
            return handler(call, request)
        return self._react(reaction, key, handler, call, request)

    def _react(
        self, reaction: Reaction, key: ApiKey, handler: Handler, call: Call, request: Any
    ) -> Any:
        match reaction:
            case ChangedRequest(changed):
                return handler(call, changed)
            case GivenAnswer(response):
                # A client that sends acks=0 reads no response.
                return None if key is ApiKey.PRODUCE and not request.acks else response
            case GivenError(code):
                text = f"{api_name(key)} refused by a hook ({code.name})"
                raise KafkaError(code, None, {"rule": RULE}, text)
            case DroppedRequest(disconnects):
                if disconnects:
                    raise DisconnectError(f"{api_name(key)} dropped by a hook")
                return Waiting()
        # The records of a Produce are views of the shared receive buffer.
        copy_views(request)
        later = call.without_pauses()
        deferred: DeferredRequest[Any] = DeferredRequest(lambda _: handler(later, request))
        deferred.wait(lambda: self.held.pop(deferred))
        self.held[deferred] = None
        return deferred.waiting

    def release(self, limit: int | None = None) -> None:
        """Handle the requests that wait, or the first `limit` of them."""
        for deferred in tuple(self.held)[:limit]:
            if deferred in self.held:  # it was dropped if the handling of another closed it
                del self.held[deferred]
                deferred.resume()


def _checked(reaction: object) -> Reaction | None:
    """Return what a function returned; raises TypeError for another value than a reaction."""
    if reaction is None or isinstance(reaction, Reaction):
        return reaction
    raise TypeError(
        f"a callback of on_request returned {short_repr(reaction)}, which is neither None nor the "
        "result of a method of the request"
    )


class HookStep:
    """The step that calls hooks; see `gateway.steps.Step`."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: tuple[RequestHook, ...]) -> None:
        self._hooks = hooks

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that calls the hooks for this API, the first one first."""
        key, latest = ApiKey(api.key), api.versions.highest
        structure = Structure(
            key,
            version if api.lift is None else latest,
            version if api.lower is None else latest,
        )
        for hook in reversed(self._hooks):
            if hook.api in {None, key}:
                handler = partial(hook.handle, structure, handler)
        return handler


class RequestHooks:
    """The hooks of one cluster, in the order in which they were added.

    `report(API, exception)` is called for each exception of a hook, and `install()` when the step
    has changed.
    """

    def __init__(
        self, report: Callable[[str, BaseException], None], install: Callable[[], None]
    ) -> None:
        self._report = report
        self._install = install
        self._hooks: tuple[RequestHook, ...] = ()

    @property
    def step(self) -> HookStep | None:
        """The step for all gateways; None without hooks."""
        return HookStep(self._hooks) if self._hooks else None

    def add(self, callback: Callback, api: str | None = None) -> RequestHook:
        """Call a function for each request of an API, or of all, that arrives from now on.

        Raises ValueError for an unknown API, and for a callback that is no function.
        """
        keys = api_keys_by_name()
        if not callable(callback):
            raise ValueError(f"on_request needs a function, not {short_repr(callback)}")  # noqa: TRY004 - as for other arguments
        if iscoroutinefunction(callback):
            raise ValueError(
                "on_request needs a plain function, not a coroutine function: the broker does not "
                "await it"
            )
        if api is not None:
            read_name("api", api, "an API of Kafka", keys)
        if len(self._hooks) >= MAX_HOOKS:
            raise ValueError(f"there are {MAX_HOOKS} hooks already: remove one first")
        hook = RequestHook(callback, None if api is None else keys[api], self._report)
        self._hooks = (*self._hooks, hook)
        self._install()
        return hook

    def remove(self, hook: RequestHook) -> None:
        """Do not call a hook any more; the requests that it holds are handled now.

        A hook that was removed before is ignored.
        """
        if hook in self._hooks:
            self._hooks = tuple(each for each in self._hooks if each is not hook)
            self._install()
            hook.release()

    def close(self) -> None:
        """Remove all hooks without handling the requests that they hold: the broker stops."""
        hooks, self._hooks = self._hooks, ()
        self._install()
        for hook in hooks:
            for deferred in tuple(hook.held):
                deferred.waiting.abandon()
