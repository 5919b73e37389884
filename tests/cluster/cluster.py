"""TestCluster: a cluster in memory whose requests are bytes, and whose time tests control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.apis.releases import api_finder
from kafkalite.cluster.cluster import Cluster
from kafkalite.cluster.pace import Pace
from kafkalite.config.broker import BrokerConfig
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.memory_files import InMemoryFiles
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.security.authorizer import AuthorizerSettings
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.session import PendingAnswer
from tests.cluster.responses import PendingResponse, frame_of, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import NoReturn

    from kafkalite.metadata.controller import MetadataController
    from kafkalite.ports.files import Files
    from kafkalite.protocol.message import Message


class Clients:
    """A client of each node of a cluster, which sends requests as bytes through the gateway."""

    controller: MetadataController
    contexts: dict[int, ConnectionContext]
    gateway: Gateway

    def create(self, name: str, partitions: int = 1, replication_factor: int = 1) -> bytes:
        """Create a topic and return its id."""
        (made,) = self.controller.create_topics(
            [NewTopic(name=name, partitions=partitions, replication_factor=replication_factor)]
        )
        assert made.error is None
        return made.topic_id

    def ask(self, request: Message, version: int, node: int = 1) -> Any:  # noqa: ANN401 - any class
        """Send a request; return its response, or PendingResponse if the answer is pending."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        frame = bytearray(frame_of(request, version))
        out: list[bytes | memoryview] = []
        answer = self.gateway.serve_in_worker(self.contexts[node], frame, 0, len(frame), out)
        if isinstance(answer, PendingAnswer):
            return PendingResponse(answer, key, version)
        return parsed(b"".join(out), key, version)


def raise_fault(_: object, fault: Exception) -> NoReturn:
    """Fail the test by an exception that the gateway would log."""
    raise fault


class TestCluster(Clients):
    """A cluster of one or more nodes, and a client of each node.

    A request passes the gateway as bytes, so it is parsed, authorized, answered and encoded as by a
    broker. There are no sockets, and no threads. A request that waits returns a `PendingResponse`,
    which arrives when another request or the clock lets it:

        cluster = TestCluster(tmp_path, nodes=2, config={"group.initial.rebalance.delay.ms": "0"})
        cluster.create("orders", partitions=3)
        joining = cluster.ask(join_request("g"), 9, node=2)
        assert not joining.has_arrived
        cluster.clock.advance(0)
        assert joining.response.error_code == ErrorCode.NONE
        cluster.restart()
        cluster.end()

    Tests read logs and state at `cluster.cluster`. The other modules of this package add the
    requests of a family: members of groups and share groups, transactional producers.
    """

    __test__ = False  # for pytest

    def __init__(
        self,
        path: Path,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        files: Files | None = None,
        node_config: Mapping[int, Mapping[str, str]] | None = None,
        as_version: str | None = None,
        controller_id: int | None = None,
        is_paced: bool = False,
    ) -> None:
        self._path, self._nodes = str(path), nodes
        self._files = InMemoryFiles() if files is None else files
        self._settings = dict(config or {})
        self._node_settings = node_config or {}
        self._as_version = as_version
        self._controller_id = controller_id
        self._is_paced = is_paced
        self.clock = ManualClock()
        self._start()

    def _start(self) -> None:
        self._directory = DataDirectory(self._files, self._path)
        nodes = self._nodes
        self.config = BrokerConfig.from_text(
            self._settings, as_version=self._as_version, controller_id=self._controller_id
        )
        for node_id, settings in self._node_settings.items():
            self.config.configure_node(node_id, settings)
        self.cluster = Cluster(
            cluster_id="cluster",
            directory=self._directory,
            clock=self.clock,
            entropy=SeededEntropy(),
            config=self.config,
            node_ids=range(1, nodes + 1),
            pace=Pace(self.clock, SeededEntropy()) if self._is_paced else None,
        )
        self.controller = self.cluster.metadata
        for node in self.cluster.nodes.values():
            node.set_endpoint("PLAINTEXT", "localhost", 9000 + node.id)
        self.contexts = {
            node.id: ConnectionContext(node=node, listener="PLAINTEXT", client_host="/127.0.0.1")
            for node in self.cluster.nodes.values()
        }
        unstable = self.config.bool("unstable.api.versions.enable")
        self.gateway = Gateway(api_finder(self.config.release, unstable=unstable), raise_fault)
        if self.config.str("authorizer.class.name"):
            authorizer = AuthorizerSettings.from_text(self._settings)
            self.gateway.install(AuthorizationStep(authorizer), StepOrder.AUTHORIZE)
        self.cluster.open(InterBrokerCalls(self.gateway))

    def restart(self, nodes: int | None = None) -> None:
        """Stop, and start again with the same data and time."""
        self.end()
        self._nodes = self._nodes if nodes is None else nodes
        self._start()

    def end(self) -> None:
        """Close the cluster."""
        self.cluster.stop()
        self._directory.close(self.cluster.partitions.logs())
