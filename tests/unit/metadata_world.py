"""A controller without a server: its log in memory, time and chance from the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafkalite.apis.context import Endpoint, RequestContext, Services
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.controller import MetadataController
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.apis.contract import Api
    from kafkalite.metadata.image import MetadataDelta, MetadataImage, TopicImage
    from kafkalite.protocol.error_codes import ErrorCode


class MetadataWorld:
    """One cluster's metadata; `restart` reads the same log with other nodes."""

    def __init__(
        self,
        *,
        nodes: Iterable[int] = (1,),
        racks: Mapping[int, str | None] | None = None,
        log: MemoryCoordinatorLog | None = None,
        seed: int = 0,
        as_version: str | None = None,
        **config: str,
    ) -> None:
        self.log = MemoryCoordinatorLog() if log is None else log
        self.seed = seed
        self.config = BrokerConfig.from_text(
            {name.replace("_", "."): text for name, text in config.items()}, as_version=as_version
        )
        self.changes: list[tuple[MetadataImage, MetadataDelta]] = []
        self.controller = MetadataController(
            log=self.log, config=self.config, clock=ManualClock(), entropy=SeededEntropy(seed)
        )
        self.controller.subscribe(lambda image, delta: self.changes.append((image, delta)))
        self.racks = dict.fromkeys(nodes) if racks is None else racks
        self.controller.start(self.racks)

    def restart(
        self, *nodes: int, as_version: str | None = None, transaction_version: str | None = None
    ) -> MetadataWorld:
        """Return the cluster as its next start finds it; dice never fall as they did before."""
        config = {} if transaction_version is None else {"transaction_version": transaction_version}
        return MetadataWorld(
            nodes=nodes,
            racks=None,
            log=self.log,
            seed=self.seed + 1,
            as_version=as_version,
            **config,
        )

    @property
    def image(self) -> MetadataImage:
        """The cluster as it is now."""
        return self.controller.image

    @property
    def last_delta(self) -> MetadataDelta:
        """What the last change touched."""
        return self.changes[-1][1]

    def topic(self, name: str) -> TopicImage:
        """Return a topic that is there."""
        return self.image.topics[name]

    def endpoints(self, listener: str) -> list[Endpoint]:
        """Every node of this start, each listener on a port range of its own."""
        port = {"PLAINTEXT": 9092, "OTHER": 19092}[listener]
        return [
            Endpoint(node_id, "broker.test", port + node_id, rack)
            for node_id, rack in sorted(self.racks.items())
        ]

    def services(self) -> Services:
        """Return what handlers of the metadata need; no partitions, no groups."""
        nothing = cast("Any", None)
        return Services(
            clock=ManualClock(),
            entropy=SeededEntropy(2),
            cluster_id="cluster",
            config=self.config,
            metadata=self.controller,
            partitions=nothing,
            groups=nothing,
            shares=nothing,
            share_partitions=nothing,
            transactions=nothing,
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
        """Answer a request as the dispatcher would, at its highest version unless told."""
        context = RequestContext(
            services=self.services(), node_id=node_id, listener=listener, client_host="/127.0.0.1"
        )
        context.api_version = api.versions.highest if version is None else version
        if api.eras is not None:
            context.era = api.eras.at(context.api_version)
        if api.lift is not None:
            request = api.lift(request, context.api_version)
        try:
            return api.handler(context, request)
        except KafkaError as error:
            return api.refuse(request, error.code, error.message)


def code_of(error: KafkaError | None) -> ErrorCode | None:
    """Return an outcome's code, None when all went well."""
    return None if error is None else error.code
