"""RequestContext and Services: all a handler may know besides its request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.apis.dispatch import Repeated
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy


class Endpoint(NamedTuple):
    """Where clients of one listener reach one node."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Unsent:
    """What lies in memory because clients ask for it and do not read it, of all connections."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


@dataclass(slots=True, kw_only=True, eq=False, repr=False)  # slots are read fastest
class Services:
    """One emulated cluster, as handlers see it; all its nodes share these."""

    clock: Clock
    entropy: Entropy
    cluster_id: str
    config: BrokerConfig
    metadata: MetadataController
    partitions: PartitionTable
    groups: CoordinatorRuntime[GroupShard]
    endpoints: Callable[[str], Sequence[Endpoint]]
    """listener name → every node's address on that listener."""
    unsent: Unsent = field(default_factory=Unsent)


class RequestContext:
    """Who asks, over what, and by which rules; one per connection, updated for each request."""

    __slots__ = (
        "api_version", "client_host", "client_id", "client_id_key", "era", "listener", "node_id",
        "principal", "repeated", "services",
    )  # fmt: skip

    def __init__(
        self,
        *,
        services: Services,
        node_id: int,
        listener: str,
        client_host: str,
        principal: str = "User:ANONYMOUS",
    ) -> None:
        self.services = services
        self.node_id = node_id
        self.listener = listener
        self.client_host = client_host
        """As Java prints an address: "/127.0.0.1"."""
        self.principal = principal
        self.client_id: str | None = None
        self.client_id_key: bytearray | int = -1
        """The client id as it came over the wire, or its length where that is below 1."""
        self.api_version = 0
        """Read by the dispatcher and eras alone."""
        self.era: Any = None
        self.repeated: Repeated | None = None
        """The dispatcher's memory of what this client says over and over."""
