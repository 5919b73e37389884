"""Settings as DescribeConfigs shows them: value, source, synonyms, type and documentation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.config.client_metrics import client_metrics_keys
from kafkalite.config.definitions import UpdateMode, value_to_text
from kafkalite.config.group import clamp_to_bounds
from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    own_broker_keys,
)
from kafkalite.config.layers import BrokerLayers, ConfigSource, Synonym, overridden_key
from kafkalite.config.tables.topic import OLD_SYNONYMS
from kafkalite.config.topic import topic_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import ConfigKey, ConfigType, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting; the value of a secret and the type of an unknown key are None."""

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
    overrides: Mapping[str, str], layers: BrokerLayers, config: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Yield a topic's settings in order of their names."""
    for name, key in config.topic_keys.items():
        if key.is_internal and name not in overrides:
            continue
        synonyms: tuple[Synonym, ...] = ()
        if name in TOPIC_SYNONYMS:
            synonyms = layers.synonyms(TOPIC_SYNONYMS[name][0][0])
        elif name in OLD_SYNONYMS:
            synonyms = layers.synonyms(OLD_SYNONYMS[name])
        value = topic_value(name, overrides, config)
        if name in overrides:
            topic_synonym = Synonym(name, value_to_text(value), ConfigSource.DYNAMIC_TOPIC)
            synonyms = (topic_synonym, *synonyms)
        yield _entry(key, value, synonyms)


def describe_broker(layers: BrokerLayers, config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield a node's settings in order of their names, including unknown keys.

    Of the keys that Kafka does not have, only those that were changed dynamically are shown.
    """
    own = own_broker_keys()
    static = {name: text for name, text in layers.static.items() if name not in own}
    texts = {**static, **layers.cluster_default, **layers.node}
    public_names = [
        name
        for name, key in config.described_keys.items()
        if not key.is_internal and name not in own
    ]
    for name in sorted({*public_names, *texts}):
        yield _broker_entry(name, texts.get(name), layers, config)


def _broker_entry(
    name: str, text: str | None, layers: BrokerLayers, config: BrokerConfig
) -> ConfigEntry:
    known = config.described_keys
    static_key = known.get(overridden_key(name))
    key = static_key or (None if name in broker_keys() else dynamic_broker_keys().get(name))
    if key is None:
        # The value of an unknown key may be a secret.
        synonyms = layers.synonyms(name, is_sensitive=True)
        return ConfigEntry(
            name=name,
            value=None,
            source=synonyms[0].source,
            is_read_only=True,
            is_sensitive=True,
            synonyms=synonyms,
        )
    if text is not None:
        value = key.parse(text)
    else:
        # Only the description of a key of an older release differs.
        value = config.get(name) if key is broker_keys().get(name) else key.default
    synonyms = layers.synonyms(name, is_sensitive=key.is_sensitive)
    is_read_only = name != key.name or key.mode is UpdateMode.READ_ONLY
    entry = _entry(key, value, synonyms, is_read_only=is_read_only)
    if static_key is None:
        # Kafka takes documentation from the settings of properties files.
        return replace(entry, documentation=None)
    return entry if key.name == name else replace(entry, name=name)


def describe_cluster_default(layers: BrokerLayers, config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield the dynamic defaults of all nodes in order of their names."""
    default_layer = replace(layers, node={}, static={}, defaults={})
    for name in sorted(layers.cluster_default):
        entry = _broker_entry(name, layers.cluster_default[name], default_layer, config)
        synonyms = (s for s in entry.synonyms if s.source is not ConfigSource.DEFAULT)
        yield replace(entry, synonyms=tuple(synonyms))


def describe_group(
    overrides: Mapping[str, str], layers: BrokerLayers, config: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Yield a group's settings in order of their names."""
    for name, key in group_config_keys().items():
        is_absent = name in config.release.absent_settings
        if is_absent or (key.is_internal and name not in overrides):
            continue
        synonym = group_synonym(name)
        if not config.release.rules.describes_synonyms_of_groups:
            value = key.default if synonym is None else config.get(synonym)
            synonyms: tuple[Synonym, ...] = (
                Synonym(name, value_to_text(value), ConfigSource.DEFAULT),
            )
        elif synonym is None:
            default = value_to_text(key.default)
            synonyms = (Synonym(name, default, ConfigSource.DEFAULT),)
            value = key.default
        else:
            synonyms = layers.synonyms(synonym)
            value = config.get(synonym)
        if name in overrides:
            own = Synonym(name, overrides[name], ConfigSource.GROUP)
            has_others = config.release.rules.describes_synonyms_of_groups
            synonyms = (own, *synonyms) if has_others else (own,)
            value = clamp_to_bounds(name, key.parse(overrides[name]), config)
        yield _entry(key, value, synonyms)


def describe_client_metrics(
    overrides: Mapping[str, str], config: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Yield the settings of a client metrics subscription in order of their names.

    Kafka before 4.1 describes only those that are set, without their types.
    """
    if not config.release.rules.describes_unset_client_metrics:
        for name in sorted(overrides):
            yield ConfigEntry(
                name=name,
                value=overrides[name],
                source=ConfigSource.CLIENT_METRICS,
                documentation="",
            )
        return
    for name, key in client_metrics_keys().items():
        synonyms: tuple[Synonym, ...] = ()
        value = key.default
        if name in overrides:
            synonyms = (Synonym(name, overrides[name], ConfigSource.CLIENT_METRICS),)
            value = key.parse(overrides[name])
        yield _entry(key, value, synonyms)
