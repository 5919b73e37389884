"""Settings as a describing client sees them: value, source, synonyms, type, what they are for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.config.broker import known_key_of
from kafkalite.config.client_metrics import client_metrics_keys
from kafkalite.config.definitions import value_to_text
from kafkalite.config.group import within_bounds
from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    topic_keys,
)
from kafkalite.config.layers import BrokerLayers, ConfigSource, Synonym
from kafkalite.config.topic import topic_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import ConfigKey, ConfigType, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting, told whole; a secret's value is None, as is a type that nobody knows."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()
    type: ConfigType | None = None
    documentation: str | None = None


def _entry(
    key: ConfigKey, value: Value, synonyms: tuple[Synonym, ...], *, is_read_only: bool = False
) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        value=None if key.is_sensitive else value_to_text(value),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=key.is_sensitive,
        synonyms=synonyms,
        type=key.type,
        documentation=key.documentation,
    )


def describe_topic(
    own: Mapping[str, str], layers: BrokerLayers, config: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Yield a topic's settings in order of their names."""
    for name, key in topic_keys().items():
        if key.is_internal and name not in own:
            continue
        synonyms: tuple[Synonym, ...] = ()
        if name in TOPIC_SYNONYMS:
            synonyms = layers.synonyms(TOPIC_SYNONYMS[name][0][0])
        value = topic_value(name, own, config)
        if name in own:
            said = Synonym(name, value_to_text(value), ConfigSource.DYNAMIC_TOPIC)
            synonyms = (said, *synonyms)
        yield _entry(key, value, synonyms)


def describe_broker(layers: BrokerLayers, config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield a node's settings in order of their names, keys that Kafka does not know included."""
    said = {**layers.static, **layers.everybody, **layers.node}
    shown = [name for name, key in broker_keys().items() if not key.is_internal]
    for name in sorted({*shown, *said}):
        yield _broker_entry(name, said.get(name), layers, config)


def _broker_entry(
    name: str, said: str | None, layers: BrokerLayers, config: BrokerConfig
) -> ConfigEntry:
    key = broker_keys().get(known_key_of(name)) or dynamic_broker_keys().get(name)
    if key is None:
        # What an unknown key holds may be a secret, so it is treated as one.
        synonyms = layers.synonyms(name, is_sensitive=True)
        return ConfigEntry(
            name=name,
            value=None,
            source=synonyms[0].source,
            is_read_only=True,
            is_sensitive=True,
            synonyms=synonyms,
        )
    value = config.get(name) if said is None else key.parse(said)
    synonyms = layers.synonyms(name, is_sensitive=key.is_sensitive)
    entry = _entry(key, value, synonyms, is_read_only=name not in dynamic_broker_keys())
    return entry if key.name == name else replace(entry, name=name)


def describe_everybody(layers: BrokerLayers, config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield what is set for all nodes at once, in order of their names."""
    alone = BrokerLayers(node={}, everybody=layers.everybody, static={})
    for name in sorted(layers.everybody):
        entry = _broker_entry(name, layers.everybody[name], alone, config)
        own = (each for each in entry.synonyms if each.source is not ConfigSource.DEFAULT)
        yield replace(entry, synonyms=tuple(own))


def describe_group(
    own: Mapping[str, str], layers: BrokerLayers, config: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Yield a group's settings in order of their names."""
    for name, key in group_config_keys().items():
        synonym = group_synonym(name)
        if synonym is None:
            default = value_to_text(key.default)
            synonyms: tuple[Synonym, ...] = (Synonym(name, default, ConfigSource.DEFAULT),)
            value = key.default
        else:
            synonyms = layers.synonyms(synonym)
            value = config.get(synonym)
        if name in own:
            synonyms = (Synonym(name, own[name], ConfigSource.GROUP), *synonyms)
            value = within_bounds(name, key.parse(own[name]), config)
        yield _entry(key, value, synonyms)


def describe_client_metrics(own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield the settings of a client metrics subscription in order of their names."""
    for name, key in client_metrics_keys().items():
        synonyms: tuple[Synonym, ...] = ()
        value = key.default
        if name in own:
            synonyms = (Synonym(name, own[name], ConfigSource.CLIENT_METRICS),)
            value = key.parse(own[name])
        yield _entry(key, value, synonyms)
