"""A real Apache Kafka of several nodes: the first is the controller as well, the others brokers."""

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
    """Run the nodes of one cluster, and stop them."""
    first = RealKafka(directory / "1", config, heap=_HEAP)
    cluster = [first]
    for number in range(2, nodes + 1):
        node_config: dict[str, str] = {}
        node = RealKafka(directory / str(number), node_config, heap=_HEAP, formats=())
        node_config |= {
            **config,
            "process.roles": "broker",
            "node.id": str(number),
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
