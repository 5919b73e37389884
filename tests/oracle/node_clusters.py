"""Clusters of three nodes that can be stopped one by one: a real Kafka, and kafkalite."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from kafkalite.config.default_overrides import DEFAULTS_NAMES, default_overrides
from kafkalite.testing import Broker
from tests.oracle.real_kafka import FAST_START, RealKafka

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.oracle.isolation import Network

NODE_IDS = (1, 2, 3)
ONE_CONTROLLER = NODE_IDS[:1]
"""The order of the decisions of one controller does not depend on elections of controllers."""
_HEAP = "256m"
_CHECKPOINT_TIMEOUT_S = 30.0
_PAUSE_S = 0.01


class NodeCluster(Protocol):
    """Three nodes; a majority of the controllers must run as long as the cluster."""

    name: str

    def port(self, node_id: int) -> int:
        """Return the port of a node."""

    def start(self) -> None:
        """Start all nodes, and return when they answer requests."""

    def kill_node(self, node_id: int) -> None:
        """End a node without a shutdown."""

    def stop_node(self, node_id: int) -> None:
        """Shut a node down in a controlled way."""

    def start_node(self, node_id: int) -> None:
        """Start a node that was killed or stopped, and return when it answers requests."""

    def pause_replication(self, node_id: int) -> None:
        """Let the replicas of a node lag; a real node does nothing at all."""

    def resume_replication(self, node_id: int) -> None:
        """Let the replicas of a node follow their leaders again."""

    def isolate_node(self, node_id: int) -> None:
        """Cut a node off from the other nodes; clients still reach it."""

    def connect_node(self, node_id: int) -> None:
        """Let an isolated node reach the other nodes again."""

    def close(self) -> None:
        """End all nodes."""


class RealNodes:
    """Apache Kafka: each node is a process, a broker and perhaps a controller, too.

    `release` is the release of Kafka, by default the pinned one. Nodes with a `network` can be
    isolated.
    """

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, str],
        node_config: Mapping[int, Mapping[str, str]],
        *,
        release: str | None = None,
        controllers: tuple[int, ...] = ONE_CONTROLLER,
        network: Network | None = None,
    ) -> None:
        self._network = network
        configs: dict[int, dict[str, str]] = {node_id: {} for node_id in NODE_IDS}
        self._nodes = {
            node_id: RealKafka(
                directory / f"{node_id}",
                configs[node_id],
                heap=_HEAP,
                format_options=("--standalone",) if (node_id,) == controllers else (),
                defaults=default_overrides(DEFAULTS_NAMES[0], len(NODE_IDS)),
                release=release,
                flags=FAST_START if network is None else (*FAST_START, *network.flags(node_id)),
            )
            for node_id in NODE_IDS
        }
        for node_id, node in self._nodes.items():
            is_controller = node_id in controllers
            node_settings = configs[node_id]
            node_settings |= {
                **config,
                **node_config.get(node_id, {}),
                "node.id": f"{node_id}",
                **self._quorum(controllers),
            }
            if not is_controller:
                address = f"PLAINTEXT://{node.bootstrap}"
                node_settings |= {
                    "process.roles": "broker",
                    "listeners": address,
                    "advertised.listeners": address,
                }
            if network is not None:
                node_settings |= network.settings(node_id, node, is_controller=is_controller)

    def _quorum(self, controllers: tuple[int, ...]) -> Mapping[str, str]:
        network = self._network
        addresses = [
            node.controller if network is None else network.controller(node_id, node)
            for node_id, node in ((each, self._nodes[each]) for each in controllers)
        ]
        settings = {"controller.quorum.bootstrap.servers": ",".join(addresses)}
        if len(controllers) > 1:
            # With fixed voters, each node formats its storage on its own.
            voters = (
                f"{each}@{address}" for each, address in zip(controllers, addresses, strict=True)
            )
            settings["controller.quorum.voters"] = ",".join(voters)
        return settings

    def port(self, node_id: int) -> int:
        """Return the port of a node."""
        return self._nodes[node_id].port

    def start(self) -> None:
        """Start all nodes at once."""
        if self._network is not None:
            self._network.start()
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            for started in [pool.submit(node.start) for node in self._nodes.values()]:
                started.result()

    def kill_node(self, node_id: int) -> None:
        """End the process at once, after it has written its high watermarks."""
        node = self._nodes[node_id]
        checkpoint = node.data / "replication-offset-checkpoint"
        before_ns = checkpoint.stat().st_mtime_ns
        deadline = time.monotonic() + _CHECKPOINT_TIMEOUT_S
        while checkpoint.stat().st_mtime_ns == before_ns and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        node.kill()

    def stop_node(self, node_id: int) -> None:
        """End the process after a controlled shutdown."""
        self._nodes[node_id].stop()

    def start_node(self, node_id: int) -> None:
        """Start the process, and return when it is ready."""
        self._nodes[node_id].start()

    def pause_replication(self, node_id: int) -> None:
        """Stop the process for a while."""
        self._nodes[node_id].pause()

    def resume_replication(self, node_id: int) -> None:
        """Let the process continue."""
        self._nodes[node_id].resume()

    def isolate_node(self, node_id: int) -> None:
        """Close the connections between a node and the others."""
        assert self._network is not None
        self._network.isolate(node_id)

    def connect_node(self, node_id: int) -> None:
        """Let a node and the others connect again."""
        assert self._network is not None
        self._network.connect(node_id)

    def close(self) -> None:
        """End all processes."""
        for node in self._nodes.values():
            node.kill()
        if self._network is not None:
            self._network.close()


class EmulatedNodes:
    """kafkalite: the nodes of one broker."""

    name = "kafkalite"

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, str],
        node_config: Mapping[int, Mapping[str, str]],
        *,
        as_version: str | None = None,
    ) -> None:
        self._broker = Broker(
            len(NODE_IDS),
            config=config,
            node_config=node_config,
            data_directory=directory,
            as_version=as_version,
        )

    def port(self, node_id: int) -> int:
        """Return the port of a node."""
        return int(self._broker.nodes[node_id].bootstrap_servers.rpartition(":")[2])

    def start(self) -> None:
        """Start all nodes."""
        self._broker.start()

    def kill_node(self, node_id: int) -> None:
        """Stop a node as if its process was killed, and the controller noticed at once."""
        self._broker.nodes[node_id].stop()

    def stop_node(self, node_id: int) -> None:
        """Stop a node by a controlled shutdown."""
        self._broker.nodes[node_id].stop(controlled=True)

    def start_node(self, node_id: int) -> None:
        """Start a node."""
        self._broker.nodes[node_id].start()

    def pause_replication(self, node_id: int) -> None:
        """Let the replicas of a node stay where they are."""
        self._broker.nodes[node_id].pause_replication()

    def resume_replication(self, node_id: int) -> None:
        """Let the replicas of a node follow again."""
        self._broker.nodes[node_id].resume_replication()

    def isolate_node(self, node_id: int) -> None:
        """Isolate a node."""
        self._broker.nodes[node_id].isolate()

    def connect_node(self, node_id: int) -> None:
        """Connect an isolated node again."""
        self._broker.nodes[node_id].start()

    def close(self) -> None:
        """Stop the broker."""
        self._broker.stop()
