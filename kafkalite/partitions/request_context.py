"""RequestContext: what partitions must know of a request for them and of the node that serves it.

The gateway's `Call` and the cluster's `Node`, which are above the partitions, have what it
needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock
    from kafkalite.protocol._generated.messages.fetch import FetchResponse
    from kafkalite.protocol.error_codes import ErrorCode


class Endpoint(Protocol):
    """The address of a node."""

    @property
    def node_id(self) -> int:
        """The id of the node."""

    @property
    def host(self) -> str:
        """The host name."""

    @property
    def port(self) -> int:
        """The port."""

    @property
    def rack(self) -> str | None:
        """The rack of the node."""


class UnreadAnswers(Protocol):
    """The answers that clients have not yet read."""

    bytes: int


class ServingNode(Protocol):
    """The node that answers a request; it may know older metadata than the partitions."""

    id: int
    clock: Clock
    config: BrokerConfig
    image: MetadataImage
    partitions: PartitionTable

    @property
    def unread_answers(self) -> UnreadAnswers:
        """The answers of the whole process that clients have not yet read."""

    def known_endpoints(self, listener: str) -> Sequence[Endpoint]:
        """Return the addresses of the nodes that are active in the node's image."""


class RequestContext(Protocol):
    """The context of one request."""

    @property
    def node(self) -> ServingNode:
        """The node that the request was sent to."""

    @property
    def era(self) -> Any:  # noqa: ANN401 - the traits of any API
        """The traits of the requested version."""

    @property
    def listener(self) -> str:
        """The listener whose addresses the client gets."""

    @property
    def client_id(self) -> str | None:
        """The client id."""

    @property
    def may_pause(self) -> bool:
        """Whether other requests may be served during this request."""

    @property
    def fetch_quota(self) -> Callable[[FetchResponse], bool] | None:
        """Returns whether a Fetch response exceeds a quota, if there is one."""

    @property
    def row_fault(self) -> Callable[[str, int], ErrorCode | None] | None:
        """Returns the error by which a fault refuses a partition, if there is one."""
