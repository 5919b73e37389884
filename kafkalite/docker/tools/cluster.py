"""`kafka-cluster cluster-id`: the id of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Show the id of the cluster.")
        parser.add_argument("command", choices=("cluster-id",))
        add_bootstrap_options(parser, "-b", config="--config")
        return run_with_client(parser.parse(arguments), environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, _: Namespace) -> int:
    metadata = await client.metadata()
    write_line(f"Cluster ID: {metadata.cluster_id}")
    return 0
