"""`kafka-cluster`: the id and the endpoints of the cluster, and removal of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_controller
from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options
from kafkalite.docker.tools.broker_api_versions import write_api_versions
from kafkalite.docker.tools.exceptions import terse_failure
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.docker.tools.tables import write_table
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol._generated.messages.unregister_controller import (
    UnregisterControllerRequest,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_COMMANDS: Final = (
    *("cluster-id", "unregister", "unregister-controller", "list-endpoints", "api-versions"),
)
_UNREGISTERING: Final = ("unregister", "unregister-controller")
_BROKERS, _CONTROLLERS = 1, 2
"""Types of endpoints."""
_VERSIONS: Final = Versions(0, 2)
_UNREGISTER_VERSIONS: Final = Versions(0, 0)
_WIDTHS: Final = (10, 9, 10, 10, 10, 15)
_STATE: Final = 4
"""The column with the state."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Show the id and the endpoints of the cluster.")
        parser.add_argument("command", choices=_COMMANDS)
        add_bootstrap_options(parser, "-b", config="--config", short_config="-c")
        parser.add_argument("--bootstrap-controller", "-C", metavar="LIST")
        parser.add_argument("--id", "-i", type=int)
        parser.add_switches("include-fenced-brokers")
        parsed = parser.parse(arguments)
        if parsed.command in _UNREGISTERING and parsed.id is None:
            parser.error("argument --id/-i is required")
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.command == "unregister":
        await _unregister(client, parsed.id)
        return 0
    if parsed.command == "unregister-controller":
        await unregister_controller(client, parsed.id)
        write_line(f"Controller {parsed.id} is no longer registered.")
        return 0
    if parsed.command == "api-versions":
        await write_api_versions(client)
        return 0
    is_controller = bool(parsed.bootstrap_controller)
    request = DescribeClusterRequest(
        endpoint_type=_CONTROLLERS if is_controller else _BROKERS,
        include_fenced_brokers=parsed.include_fenced_brokers,
    )
    response = await client.ask_any(request, _VERSIONS)
    if response.error_code:
        raise terse_failure(response)
    if parsed.command == "cluster-id":
        write_line(f"Cluster ID: {response.cluster_id}")
    else:
        _write_endpoints(response.brokers, is_controller=is_controller)
    return 0


async def _unregister(client: KafkaClient, node_id: int) -> None:
    request = UnregisterBrokerRequest(broker_id=node_id)
    response = await ask_controller(client, request, _UNREGISTER_VERSIONS)
    if response.error_code:
        raise terse_failure(response)
    write_line(f"Broker {node_id} is no longer registered.")


async def unregister_controller(client: KafkaClient, node_id: int) -> None:
    """Remove the registration of a controller that is gone; raises KafkaToolError."""
    request = UnregisterControllerRequest(controller_id=node_id)
    response = await client.ask_any(request, _UNREGISTER_VERSIONS)
    if response.error_code:
        raise terse_failure(response)


def _write_endpoints(nodes: Sequence[Any], *, is_controller: bool) -> None:
    rows: list[tuple[str, ...]] = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (
            str(each.broker_id),
            each.host,
            str(each.port),
            each.rack or "null",
            "fenced" if each.is_fenced else "unfenced",
            "controller" if is_controller else "broker",
        )
        for each in sorted(nodes, key=lambda node: int(node.broker_id))
    ]
    # Controllers are not fenced.
    columns = [each for each in range(len(_WIDTHS)) if not (is_controller and each == _STATE)]
    header, *cells = [[row[each] for each in columns] for row in rows]
    write_table(header, cells, [_WIDTHS[each] for each in columns])
