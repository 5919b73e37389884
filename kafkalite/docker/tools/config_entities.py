"""Entities of `kafka-configs`: their types, and what a command does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
BROKER_LOGGERS: Final = "broker-loggers"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"


class EntityType(NamedTuple):
    """The options of a type of entity: `--OPTION`, and with a default `--OPTION-defaults`."""

    option: str
    has_default: bool = False


ENTITIES: Final[Mapping[str, EntityType]] = {
    TOPICS: EntityType("topic"),
    USERS: EntityType("user", has_default=True),
    CLIENTS: EntityType("client", has_default=True),
    BROKERS: EntityType("broker", has_default=True),
    BROKER_LOGGERS: EntityType("broker-logger"),
    IPS: EntityType("ip", has_default=True),
    CLIENT_METRICS: EntityType("client-metrics"),
    GROUPS: EntityType("group"),
}


class Entity(NamedTuple):
    """An entity: empty for the default of its type, None for all of them."""

    kind: str
    name: str | None


class ConfigCommand(NamedTuple):
    """What is shown or changed of entities."""

    entities: tuple[Entity, ...]
    added: Mapping[str, str]
    deleted: tuple[str, ...]
    shows_all: bool
