"""RequestContext and Services: all a handler may know besides its request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.coordinator.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.apis.dispatch import Repeated
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.shares.coordinator import ShareCoordinator
    from kafkalite.shares.table import SharePartitions
    from kafkalite.transactions.coordinator import TransactionCoordinator


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
    groups: GroupCoordinator
    shares: ShareCoordinator
    share_partitions: SharePartitions
    transactions: TransactionCoordinator
    endpoints: Callable[[str], Sequence[Endpoint]]
    """listener name → every node's address on that listener."""
    unsent: Unsent = field(default_factory=Unsent)
    journal: Journal = field(default_factory=Journal)
    """Why things befell groups and transactional ids; handlers add to it by `apis.refusals`."""


class Run:
    """Requests of one connection whose records are still to be appended, all at once.

    They came together, and their answers leave together: after the records are in the log.
    """

    __slots__ = ("frames", "mark")

    def __init__(self) -> None:
        self.frames: list[tuple[int, int]] = []
        """Where they begin and end in the buffer that is being served."""
        self.mark = 0
        """How many pieces of answers there were before theirs."""


class RequestContext:
    """Who asks, over what, and by which rules; one per connection, updated for each request."""

    __slots__ = (
        "api_version", "client_host", "client_id", "client_id_key", "era", "listener", "node_id",
        "on_close", "principal", "repeated", "run", "services",
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
        self.on_close: dict[object, Callable[[], None]] = {}
        """What is to be done when the connection has ended, each under a key of its own."""
        self.repeated: Repeated | None = None
        """The dispatcher's memory of what this client says over and over."""
        self.run: Run | None = None
        """What is gathered, where whoever serves the connection calls `Dispatcher.settle`."""
