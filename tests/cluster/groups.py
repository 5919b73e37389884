"""GroupCluster: nodes that only coordinate groups, with logs in memory that can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.releases import api_finder
from kafkalite.cluster.node import Endpoint
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.metadata.controller import MetadataController
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.transactions.coordinator import TransactionCoordinator
from tests.cluster.cluster import Clients, raise_fault
from tests.unit.nodes import nodes_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class GroupCluster(Clients):
    """Nodes that coordinate groups, and a client of each."""

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        as_version: str | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.history = EventHistory()
        entropy = SeededEntropy()
        broker = BrokerConfig.from_text(config, as_version=as_version)
        self.metadata_log = MemoryCoordinatorLog()
        self.metadata = self.controller = MetadataController(
            log=self.metadata_log, config=broker, clock=self.clock, entropy=entropy
        )
        self.logs: dict[int, MemoryCoordinatorLog] = {}
        self.groups = GroupCoordinator(
            clock=self.clock,
            entropy=entropy,
            config=broker,
            image=self.metadata.image,
            open_log=lambda index: self.logs.setdefault(index, MemoryCoordinatorLog()),
            history=self.history,
        )
        self.transactions = TransactionCoordinator(
            clock=self.clock,
            config=broker,
            metadata=self.metadata,
            generate_producer_id=lambda: 0,
            open_log=lambda _: MemoryCoordinatorLog(),
            history=self.history,
        )
        self.metadata.subscribe(self.groups.on_image)
        self.metadata.subscribe(self.transactions.on_image)
        self.metadata.start(dict.fromkeys(range(1, nodes + 1)))
        self.nodes = nodes_of(
            range(1, nodes + 1),
            clock=self.clock,
            entropy=entropy,
            config=broker,
            metadata=self.metadata,
            groups=self.groups,
            history=self.history,
            transactions=self.transactions,
            endpoints=lambda _: [
                Endpoint(node, "localhost", 9000 + node) for node in range(1, nodes + 1)
            ],
        )
        for node in self.nodes.values():
            self.metadata.subscribe(node.on_image)
        self.contexts = {
            node_id: ConnectionContext(node=node, listener="PLAINTEXT", client_host="/127.0.0.1")
            for node_id, node in self.nodes.items()
        }
        self.gateway = Gateway(api_finder(broker.release), raise_fault)
