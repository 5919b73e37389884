"""`kafka-client-metrics`: show and change subscriptions of metrics of clients (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    ToolError,
    ToolParser,
    UsageError,
    add_bootstrap_options,
    bracketed_items,
    unbracketed,
)
from kafkalite.docker.tools.config_entities import CLIENT_METRICS, Entity
from kafkalite.docker.tools.exceptions import RefusedError
from kafkalite.docker.tools.resource_configs import (
    alter_resource,
    config_resources,
    resource_configs,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_ACTIONS: Final = ("list", "describe", "alter", "delete")
_SETTINGS: Final[Mapping[str, str]] = {
    "metrics": "metrics",
    "interval": "interval.ms",
    "match": "match",
}
"""Option → the configuration that it sets."""
_NOT_ACTIONS: Final = (
    "Command must include exactly one action: --alter, --delete, --describe, --list."
)
_RESOURCE_TYPE: Final = 16


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        try:
            return run_with_client(parsed, environment, _run)
        except UsageError:
            raise
        except RefusedError as error:
            reason = str(error).partition("Exception: ")[2].partition("Exception: ")[2]
        except ToolError as error:
            reason = str(error)
        # Kafka's tool prints this to standard output.
        write_line(f"Error while executing client metrics command : {reason}")
        return FAILED_STATUS

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Show and change subscriptions of metrics of clients.")
    add_bootstrap_options(parser)
    parser.add_switches(*_ACTIONS, "generate-name")
    parser.add_values("name", *_SETTINGS)
    parsed = parser.parse(arguments)
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    if action == "alter" and bool(parsed.name) is parsed.generate_name:
        parser.error("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not parsed.name:
        parser.error("A client metrics resource name must be specified with --delete.")
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        for name in await config_resources(client, _RESOURCE_TYPE):
            write_line(name)
    elif parsed.describe:
        await _describe(client, parsed.name)
    elif parsed.alter:
        name = parsed.name or uuid_to_text(SystemEntropy().uuid())
        given = {key: getattr(parsed, option) for option, key in _SETTINGS.items()}
        added = {key: unbracketed(text) for key, text in given.items() if text}
        deleted = tuple(key for key, text in given.items() if text == "")
        await alter_resource(client, Entity(CLIENT_METRICS, name), added, deleted)
        write_line(f"Altered client metrics config for {name}.")
    else:
        entity = Entity(CLIENT_METRICS, parsed.name)
        keys = tuple(each.name for each in await resource_configs(client, entity))
        await alter_resource(client, entity, {}, keys)
        write_line(f"Deleted client metrics config for {parsed.name}.")
    return 0


async def _describe(client: KafkaClient, name: str | None) -> None:
    known = await config_resources(client, _RESOURCE_TYPE)
    if name is not None and name not in known:
        write_line(
            f"The client metric resource {name} doesn't exist and doesn't have dynamic config."
        )
        return
    for each in known if name is None else [name]:
        write_line(f"Client metrics configs for {each} are:")
        for config in await resource_configs(client, Entity(CLIENT_METRICS, each)):
            write_line(f"  {config.name}={','.join(bracketed_items(config.value or ''))}")
