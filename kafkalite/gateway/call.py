"""Call: the context of one request; ConnectionContext: what the requests of a connection share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalite.security.listener_security import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.gateway.repeated import RepeatedRequest
    from kafkalite.gateway.throttling import MutationQuota
    from kafkalite.protocol._generated.messages.fetch import FetchResponse
    from kafkalite.protocol.acl_operations import Operation, Resource
    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.security.permissions import Permissions
    from kafkalite.security.sasl.authenticator import Authenticator


class ClientConnection(Protocol):
    """The connection of a client, whose requests can be delayed."""

    @property
    def port(self) -> int | None:
        """The port of the client; None if it is unknown."""

    def mute(self, duration_ms: int) -> None:
        """Serve no further request for this time; answers are still sent."""


class ConnectionContext:
    """What the requests of one connection, or of one node to another, have in common."""

    __slots__ = (
        "_on_close",
        "_principal",
        "authenticator",
        "checked_image",
        "checked_request",
        "client_host",
        "client_id",
        "client_software",
        "connection",
        "encoded_client_id",
        "exchange",
        "latest_call",
        "latest_facts",
        "listener",
        "node",
        "permissions",
        "repeated",
        "sender",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node: Node,
        listener: str,
        client_host: str,
        principal: str = ANONYMOUS,
        sender: Node | None = None,
        client_id: str | None = None,
    ) -> None:
        self.node: Final = node
        self.listener: Final = listener
        self.client_host: Final = client_host
        """The address as Java prints it: "/127.0.0.1"."""
        self._principal = principal
        self.authenticator: Authenticator | None = None
        """The authentication of the connection; None on a listener without SASL."""
        self.sender: Final = sender
        """The node that calls; None if a client calls."""
        self.connection: ClientConnection | None = None
        """The connection of the client; None if there is none, or if it is closed."""
        self.client_id = client_id
        """The client id of the latest request."""
        self.client_software: tuple[str, str] | None = None
        """Name and version of the client's library; None if the client did not send them."""
        self.encoded_client_id: bytes | int = -1
        """The client id as bytes, or its length field if that is below 1."""
        self.exchange: Exchange | None = None
        """The account of the request that is not answered yet; None without observers."""
        self._on_close: dict[object, Callable[[], None]] | None = None
        self.permissions: Permissions | None = None
        """The permissions of the client; None without an authorizer. See `apis.authorization`."""
        self.checked_request: object = None
        """The last request that the ACLs of `checked_image` allowed, if it may be repeated."""
        self.checked_image: object = None
        self.repeated: RepeatedRequest | None = None
        """The gateway's cache of the request that this client repeats."""
        self.latest_call = Call(self)
        """The context of the latest request, which an equal request may have as well."""
        self.latest_facts: tuple[int, int, object] | None = None
        """The size, version and era of that request; None if the next one needs a new context."""

    def call(self, api_version: int, era: object, request_bytes: int) -> Call:
        """Return the context of a request."""
        facts = (request_bytes, api_version, era)
        if facts != self.latest_facts:
            self.latest_facts = facts
            self.latest_call = Call(
                self, api_version=api_version, era=era, request_bytes=request_bytes
            )
        return self.latest_call

    def set_client_id(self, client_id: str | None, encoded: bytes | int) -> None:
        """Set the client id of the next requests."""
        self.client_id, self.encoded_client_id = client_id, encoded
        self.repeated = None  # the cached request has another client id
        self.latest_call, self.latest_facts = Call(self), None

    def close(self) -> None:
        """Notify those in `on_close`; the connection is closed, and serves no more requests."""
        self.connection = None
        for close in (self._on_close or {}).values():
            close()
        # They refer to the context: all are freed without the garbage collector.
        self._on_close = self.repeated = None
        del self.latest_call

    @property
    def principal(self) -> str:
        """The principal of the client, such as "User:alice"."""
        return self._principal

    @principal.setter
    def principal(self, principal: str) -> None:
        self._principal = principal
        self.permissions = self.checked_request = self.checked_image = None

    @property
    def on_close(self) -> dict[object, Callable[[], None]]:
        """Functions to call at the end of the connection, each under a unique key."""
        if self._on_close is None:
            self._on_close = {}
        return self._on_close


class Call:
    """The context of one request. It is immutable, so code that continues later can keep it."""

    __slots__ = (
        "api_version",
        "client_id",
        "context",
        "era",
        "fetch_quota",
        "listener",
        "may_pause",
        "mutation_quota",
        "node",
        "request_bytes",
        "row_fault",
    )  # fmt: skip

    def __init__(
        self,
        context: ConnectionContext,
        *,
        api_version: int = 0,
        era: object = None,
        request_bytes: int = 0,
        may_pause: bool = False,
        mutation_quota: MutationQuota | None = None,
        fetch_quota: Callable[[FetchResponse], bool] | None = None,
        row_fault: Callable[[str, int], ErrorCode | None] | None = None,
    ) -> None:
        self.context: Final = context
        self.node: Final = context.node
        self.listener: Final = context.listener
        self.client_id: Final = context.client_id
        self.api_version: Final = api_version
        """Only the gateway and eras use it."""
        self.era: Final[Any] = era
        self.request_bytes: Final = request_bytes
        """The size of the request; 0 for a request of another node."""
        self.may_pause: Final = may_pause
        """Whether other requests may be served during this request, because a worker serves it."""
        self.mutation_quota: Final = mutation_quota
        """The quota of a request that creates or deletes partitions, if there is one."""
        self.fetch_quota: Final = fetch_quota
        """Whether a Fetch response exceeds a quota, so that the client gets no records."""
        self.row_fault: Final = row_fault
        """Returns the error by which a fault refuses a partition of a fetch, if there is one."""

    def without_pauses(self) -> Call:
        """Return the context for a request that is handled later, by no worker."""
        return self._replace(may_pause=False) if self.may_pause else self

    def with_quotas(
        self,
        mutation_quota: MutationQuota | None,
        fetch_quota: Callable[[FetchResponse], bool] | None,
    ) -> Call:
        """Return the context of the same request with its quotas."""
        return self._replace(mutation_quota=mutation_quota, fetch_quota=fetch_quota)

    def with_row_fault(self, row_fault: Callable[[str, int], ErrorCode | None]) -> Call:
        """Return the context of the same request, some of whose partitions a fault refuses."""
        return self._replace(row_fault=row_fault)

    def _replace(self, **changes: Any) -> Call:  # noqa: ANN401 - any attribute
        call = Call.__new__(Call)
        for name in Call.__slots__:
            setattr(call, name, changes.get(name, getattr(self, name)))
        return call

    @property
    def client_host(self) -> str:
        """The address as Java prints it: "/127.0.0.1"."""
        return self.context.client_host

    @property
    def sender(self) -> Node | None:
        """The node that sent the request; None for a request of a client."""
        return self.context.sender

    @property
    def principal(self) -> str:
        """The principal of the client, such as "User:alice"."""
        return self.context.principal

    @property
    def permissions(self) -> Permissions | None:
        """The permissions of the client; None without an authorizer."""
        return self.context.permissions

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation; without an authorizer, it may."""
        permissions = self.context.permissions
        return permissions is None or permissions.allows(operation, resource, name)

    @property
    def authenticator(self) -> Authenticator | None:
        """The authentication of the connection; None on a listener without SASL."""
        return self.context.authenticator

    @property
    def connection(self) -> ClientConnection | None:
        """The connection of the client; None if there is none, or if it is closed."""
        return self.context.connection
