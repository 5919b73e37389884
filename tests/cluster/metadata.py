"""MetadataCluster: a cluster of a controller alone, with its log in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.cluster.node import Endpoint, Node
from kafkalite.config.broker import BrokerConfig
from kafkalite.gateway.call import ConnectionContext
from kafkalite.metadata.brokers import no_directories
from kafkalite.metadata.controller import MetadataController
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.nodes import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.gateway.api import Api
    from kafkalite.metadata.image import MetadataDelta, MetadataImage, TopicImage
    from kafkalite.protocol.error_codes import ErrorCode


class MetadataCluster:
    """One cluster's metadata; `restart` reads the same log with other nodes."""

    def __init__(
        self,
        *,
        nodes: Iterable[int] = (1,),
        racks: Mapping[int, str | None] | None = None,
        log: MemoryCoordinatorLog | None = None,
        seed: int = 0,
        directories_of: Callable[[int], tuple[bytes, ...]] = no_directories,
        as_version: str | None = None,
        **config: str,
    ) -> None:
        self.log = MemoryCoordinatorLog() if log is None else log
        self.seed = seed
        self.config = BrokerConfig.from_text(
            {name.replace("_", "."): text for name, text in config.items()}, as_version=as_version
        )
        self.changes: list[tuple[MetadataImage, MetadataDelta]] = []
        self.clock = ManualClock()
        self.controller = MetadataController(
            log=self.log,
            config=self.config,
            clock=self.clock,
            entropy=SeededEntropy(seed),
            directories_of=directories_of,
        )
        self.controller.subscribe(lambda image, delta: self.changes.append((image, delta)))
        self._directories_of = directories_of
        self.racks = dict.fromkeys(nodes) if racks is None else racks
        self.controller.start(self.racks)

    def restart(
        self,
        *nodes: int,
        as_version: str | None = None,
        transaction_version: str | None = None,
        **config: str,
    ) -> MetadataCluster:
        """Return the cluster after its next start, with other random values."""
        if transaction_version is not None:
            config["transaction_version"] = transaction_version
        return MetadataCluster(
            nodes=nodes,
            racks=None,
            log=self.log,
            seed=self.seed + 1,
            directories_of=self._directories_of,
            as_version=as_version,
            **config,
        )

    @property
    def image(self) -> MetadataImage:
        """The current image of the cluster."""
        return self.controller.image

    @property
    def last_delta(self) -> MetadataDelta:
        """The delta of the last change."""
        return self.changes[-1][1]

    def topic(self, name: str) -> TopicImage:
        """Return an existing topic."""
        return self.image.topics[name]

    def endpoints(self, listener: str) -> list[Endpoint]:
        """Every node of this start, each listener on a port range of its own."""
        port = {"PLAINTEXT": 9092, "OTHER": 19092}[listener]
        return [
            Endpoint(node_id, "broker.test", port + node_id, rack)
            for node_id, rack in sorted(self.racks.items())
        ]

    def node(self, node_id: int = 1) -> Node:
        """Return a node for handlers of the metadata, without partitions and groups."""
        return node_of(
            node_id,
            clock=ManualClock(),
            entropy=SeededEntropy(2),
            config=self.config,
            metadata=self.controller,
            endpoints=self.endpoints,
        )

    def ask(
        self,
        api: Api,
        request: object,
        version: int | None = None,
        *,
        node_id: int = 1,
        listener: str = "PLAINTEXT",
    ) -> Any:  # noqa: ANN401 - one method for every API's response
        """Answer a request as the gateway would, at its highest version by default."""
        context = ConnectionContext(
            node=self.node(node_id), listener=listener, client_host="/127.0.0.1"
        )
        version = api.versions.highest if version is None else version
        call = context.call(version, None if api.eras is None else api.eras.at(version), 0)
        if api.lift is not None:
            request = api.lift(request, version)
        try:
            return api.handler(call, request)
        except KafkaError as error:
            return api.refuse(request, error.code, error.message)


def code_of(error: KafkaError | None) -> ErrorCode | None:
    """Return the error code of an outcome, None for a success."""
    return None if error is None else error.code
