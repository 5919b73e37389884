"""`kafka-configs` for topics, brokers, their loggers, client metrics and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.topics import list_topics
from kafkalite.config.layers import ConfigSource
from kafkalite.docker.tools.arguments import KafkaToolError, ToolError
from kafkalite.docker.tools.config_entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    TOPICS,
    ConfigCommand,
    Entity,
)
from kafkalite.docker.tools.exceptions import refused
from kafkalite.docker.tools.running import write_line
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_config_resources import (
    ListConfigResourcesRequest,
)
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message

_RESOURCE_TYPES: Final[Mapping[str, int]] = {
    TOPICS: 2,
    BROKERS: 4,
    BROKER_LOGGERS: 8,
    CLIENT_METRICS: 16,
    GROUPS: 32,
}
_SOURCES: Final[Mapping[str, ConfigSource]] = {
    TOPICS: ConfigSource.DYNAMIC_TOPIC,
    BROKERS: ConfigSource.DYNAMIC_BROKER,
    CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    GROUPS: ConfigSource.GROUP,
}
"""Type of entity → the source of the values that are set for the entity itself."""
_SOURCE_NAMES: Final[Mapping[int, str]] = {
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
}
_SET, _DELETE = 0, 1
_DESCRIBE_VERSIONS: Final = Versions(1, 4)
_ALTER_VERSIONS: Final = Versions(0, 1)
_LIST_VERSIONS: Final = Versions(0, 1)


async def describe(client: KafkaClient, command: ConfigCommand) -> None:
    """Print the configurations of entities."""
    (entity,) = command.entities
    names = [] if entity.name == "" else await _names(client, entity.kind)
    if entity.name and entity.kind != BROKER_LOGGERS and entity.name not in names:
        write_line(
            f"The {entity.kind[:-1]} '{entity.name}' doesn't exist and doesn't have dynamic config."
        )
        return
    if entity.name is not None:
        chosen = [entity.name]
    else:
        chosen = [*names, *([""] if entity.kind == BROKERS else [])]
    for name in chosen:
        await _describe_one(client, Entity(entity.kind, name), shows_all=command.shows_all)


async def _names(client: KafkaClient, kind: str) -> list[str]:
    """Return the names of all entities of a type."""
    if kind == TOPICS:
        return [each.name for each in await list_topics(client)]
    if kind in (BROKERS, BROKER_LOGGERS):
        return [str(each.node_id) for each in (await client.metadata()).brokers]
    return await config_resources(client, _RESOURCE_TYPES[kind])


async def config_resources(client: KafkaClient, resource_type: int) -> list[str]:
    """Return the names of the resources of a type that have configurations; raises ToolError."""
    request = ListConfigResourcesRequest(resource_types=[resource_type])
    response = await client.ask_any(request, _LIST_VERSIONS)
    if response.error_code:
        raise refused(response)
    return sorted(each.resource_name for each in response.config_resources)


async def _describe_one(client: KafkaClient, entity: Entity, *, shows_all: bool) -> None:
    kind, name = entity
    if name:
        scope = "All" if shows_all else "Dynamic"
        write_line(f"{scope} configs for {kind[:-1]} {name} are:")
    else:
        write_line(f"Default configs for {kind} in the cluster are:")
    source = _SOURCES.get(kind) if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    for config in await resource_configs(client, entity):
        if shows_all or source in (None, config.config_source):
            write_line(f"  {_setting(config)}")


async def resource_configs(client: KafkaClient, entity: Entity) -> list[Any]:
    """Return the configurations of an entity by name; raises ToolError."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_RESOURCE_TYPES[entity.kind],
        resource_name=entity.name or "",
        configuration_keys=None,
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    result = (await _ask(client, entity, request, _DESCRIBE_VERSIONS)).results[0]
    if result.error_code:
        raise refused(result)
    return sorted(result.configs, key=lambda each: str(each.name))


async def _ask(client: KafkaClient, entity: Entity, request: Message, versions: Versions) -> Any:  # noqa: ANN401 - any response class
    """Return the response of the broker that a request is about, else of any broker."""
    if entity.kind in (BROKERS, BROKER_LOGGERS) and entity.name:
        for broker in (await client.metadata()).brokers:
            if str(broker.node_id) == entity.name:
                return await client.ask(Address(broker.host, broker.port), request, versions)
        raise ToolError(f"there is no broker {entity.name}")
    return await client.ask_any(request, versions)


def _setting(config: Any) -> str:  # noqa: ANN401 - of many versions
    """Return a setting and where its value comes from, as Kafka's tool prints it."""
    synonyms = ", ".join(
        f"{_source_name(each.source)}:{each.name}={_shown(each.value)}" for each in config.synonyms
    )
    sensitive = str(config.is_sensitive).lower()
    return f"{config.name}={_shown(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _source_name(source: int) -> str:
    return _SOURCE_NAMES.get(source) or f"{ConfigSource(source).name}_CONFIG"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


async def alter(client: KafkaClient, command: ConfigCommand) -> None:
    """Change the configurations of an entity; raises ToolError."""
    (entity,) = command.entities
    if entity.kind == BROKER_LOGGERS:
        known = {each.name for each in await resource_configs(client, entity)}
        if unknown := sorted({*command.added, *command.deleted} - known):
            raise KafkaToolError(f"Invalid broker logger(s): {','.join(unknown)}")
    await alter_resource(client, entity, command.added, command.deleted)


async def alter_resource(
    client: KafkaClient, entity: Entity, added: Mapping[str, str], deleted: tuple[str, ...]
) -> None:
    """Set and delete configurations of an entity; raises ToolError."""
    row = IncrementalAlterConfigsRequest.AlterableConfig
    configs = [row(name=key, config_operation=_SET, value=value) for key, value in added.items()]
    configs += [row(name=key, config_operation=_DELETE, value=None) for key in deleted]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_RESOURCE_TYPES[entity.kind],
        resource_name=entity.name or "",
        configs=configs,
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await _ask(client, entity, request, _ALTER_VERSIONS)
    for result in response.responses:
        if result.error_code:
            raise refused(result)
