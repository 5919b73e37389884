"""`kafka-configs`: show and change configurations, quotas and SCRAM users."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools import resource_configs, user_configs
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    KafkaToolError,
    ToolError,
    ToolParser,
    add_bootstrap_options,
    bracketed_items,
    file_text,
    key_values,
    parsed_properties,
    unbracketed,
)
from kafkalite.docker.tools.config_entities import (
    CLIENTS,
    ENTITIES,
    IPS,
    USERS,
    ConfigCommand,
    Entity,
)
from kafkalite.docker.tools.exceptions import RefusedError
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line
from kafkalite.docker.tools.storage import add_users

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_DEFAULT: Final = ""
_QUOTA_TYPES: Final = (USERS, CLIENTS, IPS)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        parsed.command = _command(parsed, environment)
        if parsed.zookeeper:
            return _add_users_before_start(parsed.command, environment)
        try:
            return run_with_client(parsed, environment, _run)
        except RefusedError as error:
            text = " ".join(arguments)
            write_error(f"Error while executing config command with args '{text}'\n{error}")
            return FAILED_STATUS

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Show and change configurations, quotas and SCRAM users.")
    add_bootstrap_options(parser, has_controller=True)
    parser.add_switches("describe", "alter", "all", "force")
    parser.add_values("zookeeper", "add-config", "add-config-file", "delete-config")
    parser.add_values("entity-type", many=True, choices=tuple(ENTITIES))
    names: dict[str, Any] = {"dest": "entity_name", "action": "append", "default": []}
    parser.add_values("entity-name", **names)
    parser.add_argument(
        "--entity-default", dest="entity_name", action="append_const", const=_DEFAULT
    )
    for kind, entity in ENTITIES.items():
        parser.add_values(entity.option, dest=f"name_of_{kind}", default=None)
        if entity.has_default:
            parser.add_argument(
                f"--{entity.option}-defaults",
                dest=f"name_of_{kind}",
                action="store_const",
                const=_DEFAULT,
            )
    parsed = parser.parse(arguments)
    if parsed.alter is parsed.describe:
        parser.error("Command must include exactly one action: --describe, --alter")
    parsed.entities = _entities(parsed)
    if not parsed.entities:
        parser.error("At least one entity type must be specified")
    changes = (parsed.add_config, parsed.add_config_file, parsed.delete_config)
    if parsed.alter and not any(changes):
        parser.error(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )
    if parsed.alter and any(each.name is None for each in parsed.entities):
        parser.error("an entity name or default entity must be specified with --alter")
    return parsed


def _entities(parsed: Namespace) -> list[Entity]:
    """Return the entities of the options, in the order of Kafka's tool."""
    names = [*parsed.entity_name, *[None] * len(parsed.entity_type)]
    found = [Entity(*each) for each in zip(parsed.entity_type, names, strict=False)]
    for kind in (USERS, *(each for each in ENTITIES if each != USERS)):
        name = getattr(parsed, f"name_of_{kind}")
        if name is not None:
            found.append(Entity(kind, name))
    kinds = [each.kind for each in found]
    # Quotas of a user and a client: the user comes first.
    return sorted(found, key=lambda each: each.kind != USERS) if USERS in kinds else found


def _command(parsed: Namespace, environment: Mapping[str, str]) -> ConfigCommand:
    """Return the command of the options; raises ToolError."""
    added: dict[str, str] = {}
    if parsed.add_config_file is not None:
        path = parsed.add_config_file
        added |= parsed_properties(file_text(path, environment), path)
    for key, value in key_values(bracketed_items(parsed.add_config or ""), "--add-config"):
        added[key] = unbracketed(value)
    entities = tuple(parsed.entities)
    for each in entities:
        if each.kind == IPS and each.name and not _is_resolvable(each.name):
            raise KafkaToolError(
                "The entity name for ips must be a valid IP or resolvable host, but it is: "
                f"{each.name}"
            )
    deleted = bracketed_items(parsed.delete_config or "")
    return ConfigCommand(entities, added, tuple(deleted), shows_all=parsed.all)


def _is_resolvable(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            return False
    return True


def _add_users_before_start(command: ConfigCommand, environment: Mapping[str, str]) -> int:
    """Store SCRAM users for the start of the broker, which needs no ZooKeeper; ToolError."""
    (entity, *others) = command.entities
    if others or entity.kind != USERS or not entity.name or not command.added or command.deleted:
        raise ToolError(
            "--zookeeper: there is no ZooKeeper; write --bootstrap-server HOST:PORT with the "
            "address of the broker. Before its start, only SCRAM users can be added"
        )
    add_users(
        [
            f"{mechanism}=[name={entity.name},{options}]"
            for mechanism, options in command.added.items()
        ],
        "--add-config",
        environment,
    )
    write_line(f"Completed updating config for user {entity.name}.")
    return 0


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    command: ConfigCommand = parsed.command
    has_quotas = command.entities[0].kind in _QUOTA_TYPES
    module = user_configs if has_quotas else resource_configs
    if parsed.describe:
        await module.describe(client, command)
        return 0
    await module.alter(client, command)
    last = command.entities[-1]
    if last.name:
        write_line(f"Completed updating config for {last.kind[:-1]} {last.name}.")
    else:
        write_line(f"Completed updating default config for {last.kind} in the cluster.")
    return 0
