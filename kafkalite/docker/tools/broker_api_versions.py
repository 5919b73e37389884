"""`kafka-broker-api-versions`: the APIs and versions of each broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_reason,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_VERSIONS: Final = Versions(0, 2)
_OPTIONAL: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""APIs of clients that a broker without a receiver of client metrics does not serve."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Show the APIs and versions of each broker.")
        add_bootstrap_options(parser)
        return run_with_client(parser.parse(arguments), environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, _: Namespace) -> int:
    await write_api_versions(client)
    return 0


async def write_api_versions(client: KafkaClient) -> None:
    """Print the APIs and versions of each broker, and which version Kafka's client would use."""
    metadata = await client.metadata()
    for broker in sorted(metadata.brokers, key=lambda each: int(each.node_id)):
        address = Address(broker.host, broker.port)
        response = await client.ask(address, ApiVersionsRequest(), _VERSIONS)
        if response.error_code:
            raise ToolError(f"{address}: {error_reason(response)}")
        served = {
            int(row.api_key): Versions(row.min_version, row.max_version)
            for row in response.api_keys
        }
        rows = [
            f"\t{codec.api_name(key)}({key}): {_versions_text(key, served.get(key))}"
            for key in sorted({*served, *_OPTIONAL})
        ]
        rack = broker.rack or "null"
        write_line(f"{address} (id: {broker.node_id} rack: {rack} isFenced: false) -> (")
        write_line(",\n".join(rows))
        write_line(")")


def _versions_text(key: int, served: Versions | None) -> str:
    if served is None:
        return "UNSUPPORTED"
    usable = served.overlap(codec.api_versions(key))
    lowest, highest = served.lowest, served.highest
    numbers = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
    return f"{numbers} [{'unusable' if usable is None else f'usable: {usable.highest}'}]"
