"""A real Apache Kafka of several nodes: a combined controller and broker, and further brokers."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.oracle.real_kafka import RealKafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_HEAP = "256m"


@contextmanager
def real_cluster(
    directory: Path, nodes: int, config: Mapping[str, str]
) -> Iterator[list[RealKafka]]:
    """Run the nodes of one cluster, and kill them at the end."""
    first = RealKafka(directory / "1", config, heap=_HEAP)
    cluster = [first]
    for node_id in range(2, nodes + 1):
        node_config: dict[str, str] = {}
        node = RealKafka(directory / str(node_id), node_config, heap=_HEAP, format_options=())
        node_config |= {
            **config,
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": first.controller,
            "listeners": f"PLAINTEXT://{node.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{node.bootstrap}",
        }
        cluster.append(node)
    with ExitStack() as running:
        for node in cluster:
            running.callback(node.kill)
            node.start()
        yield cluster
