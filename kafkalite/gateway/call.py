"""Call: the context of a request: the node, the listener, the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.gateway.refusals import DEFAULT_REFUSAL_OBSERVERS
from kafkalite.security.listener_security import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.refusals import RefusalObserver
    from kafkalite.gateway.repeated import RepeatedRequest
    from kafkalite.gateway.throttling import MutationQuota
    from kafkalite.protocol._generated.messages.fetch import FetchResponse
    from kafkalite.security.permissions import Permissions
    from kafkalite.security.sasl.authenticator import Authenticator


class ClientConnection(Protocol):
    """The connection of a client, whose requests can be delayed."""

    @property
    def port(self) -> int | None:
        """The port of the client; None if it is unknown."""

    def mute(self, duration_ms: int) -> None:
        """Serve no further request for this time; answers are still sent."""


class Call:
    """The context of the requests of one connection, updated for each request."""

    __slots__ = (
        "_on_close",
        "_principal",
        "api_version",
        "authenticator",
        "checked_image",
        "checked_request",
        "client_host",
        "client_id",
        "client_software",
        "connection",
        "encoded_client_id",
        "era",
        "fetch_quota",
        "listener",
        "may_pause",
        "mutation_quota",
        "node",
        "permissions",
        "refusal_observers",
        "repeated",
        "request_bytes",
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
    ) -> None:
        self.node = node
        self.listener = listener
        self.client_host = client_host
        """The address as Java prints it: "/127.0.0.1"."""
        self._principal = principal
        self.authenticator: Authenticator | None = None
        """The authentication of the connection; None on a listener without SASL."""
        self.sender = sender
        """The node that calls; None if a client calls."""
        self.connection: ClientConnection | None = None
        """The connection of the client; None if there is none, or if it is closed."""
        self.client_id: str | None = None
        self.client_software: tuple[str, str] | None = None
        """Name and version of the client's library; set if clients may push metrics."""
        self.encoded_client_id: bytes | int = -1
        """The client id as bytes, or its length field if that is below 1."""
        self.api_version = 0
        """Only the gateway and eras use it."""
        self.era: Any = None
        self._on_close: dict[object, Callable[[], None]] | None = None
        self.permissions: Permissions | None = None
        """The permissions of the client; None without an authorizer. See `apis.authorization`."""
        self.checked_request: object = None
        """The last request that the ACLs of `checked_image` allowed, if it may be repeated."""
        self.checked_image: object = None
        self.refusal_observers: Sequence[RefusalObserver] = DEFAULT_REFUSAL_OBSERVERS
        """They are called with each refusal. The default is for calls that no gateway serves."""
        self.repeated: RepeatedRequest | None = None
        """The gateway's cache of the request that this client repeats."""
        self.request_bytes = 0
        """The size of the request; not set for a repeated request."""
        self.mutation_quota: MutationQuota | None = None
        """The quota of a request that creates or deletes partitions, if there is one."""
        self.fetch_quota: Callable[[FetchResponse], bool] | None = None
        """Whether a Fetch response exceeds a quota, so that the client gets no records."""
        self.may_pause = False
        """Whether other requests may be served during this request."""

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
