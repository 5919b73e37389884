"""`cub kafka-ready`: wait until a cluster has a number of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.connection import UnreachableError
from kafkalite.client.retries import Backoff, Retries
from kafkalite.docker.tools.arguments import ToolError, ToolParser
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_BACKOFF: Final = Backoff(100, 500)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Wait until a cluster has a number of brokers.")
        parser.add_argument("command", choices=("kafka-ready", "zk-ready"))
        parser.add_argument("rest", nargs="+", metavar="EXPECTED TIMEOUT")
        parser.add_argument("-b", "--bootstrap_broker_list", dest="bootstrap_server")
        parser.add_argument("-c", "--config", dest="client_config")
        parsed = parser.parse(arguments)
        if parsed.command == "zk-ready":
            write_line("there is no ZooKeeper to wait for")
            return 0
        if len(parsed.rest) != len(("EXPECTED", "TIMEOUT")) or not all(
            text.isascii() and text.isdigit() for text in parsed.rest
        ):
            parser.error("write kafka-ready -b HOST:PORT EXPECTED TIMEOUT, with two numbers")
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    expected, timeout_s = map(int, parsed.rest)
    retries = Retries(AdjustableClock(), _BACKOFF, timeout_s * 1000)
    failure = "no broker answered"
    while True:
        try:
            metadata = await client.metadata(timeout_s=retries.request_timeout_s)
        except UnreachableError as error:
            failure = str(error)
        else:
            if len(metadata.brokers) >= expected:
                return 0
            failure = f"the cluster has {len(metadata.brokers)}"
        if not await retries.wait():
            raise ToolError(f"Expected {expected} brokers within {timeout_s} s: {failure}")
