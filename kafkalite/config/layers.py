"""Sources of a broker's settings: one node, all nodes, the properties file, or the default.

DescribeConfigs shows a setting with its synonyms: every layer and every related key that has a
value for it, in order of precedence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import value_to_text
from kafkalite.config.keys import broker_keys, broker_synonyms
from kafkalite.ports.int_enums import IntEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.definitions import ConfigKey


class ConfigSource(IntEnum):
    """The source of a value, with its number in the protocol."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One source of a setting's value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """The settings of one node by layer, as text by key, in order of precedence."""

    node: Mapping[str, str]
    cluster_default: Mapping[str, str]
    static: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    """The defaults that differ from those of the keys."""
    keys: Mapping[str, ConfigKey] = field(default_factory=broker_keys)
    """The keys of the release."""

    def synonyms(self, name: str, *, is_sensitive: bool = False) -> tuple[Synonym, ...]:
        """Return the sources of a broker key's value, in order of precedence.

        As in Kafka, sources before the first one with the key itself are omitted. So a key without
        a value or default of its own has no synonyms, even if a related key determines its value.
        """
        names = _key_and_synonyms(name)
        synonyms = [
            Synonym(key, None if is_sensitive else layer[key], source)
            for layer, source in (
                (self.node, ConfigSource.DYNAMIC_BROKER),
                (self.cluster_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self.static, ConfigSource.STATIC_BROKER),
            )
            for key in names
            if key in layer
        ]
        for key in names:
            default = self._default_of(key)
            if default is not None:
                value = None if is_sensitive else default
                synonyms.append(Synonym(key, value, ConfigSource.DEFAULT))
        while synonyms and synonyms[0].name != name:
            synonyms.pop(0)
        return tuple(synonyms)

    def _default_of(self, key: str) -> str | None:
        if key in self.defaults:
            return self.defaults[key]
        definition = self.keys.get(key)
        return None if definition is None else value_to_text(definition.default)


_MECHANISM_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that listeners can set for each SASL mechanism: listener.name.LISTENER.MECHANISM.KEY."""


def overridden_key(name: str) -> str:
    """Return the key that a key of a listener or of its SASL mechanism overrides, else `name`.

    As in Kafka's DynamicBrokerConfig, the mechanism is not checked.
    """
    if not name.startswith("listener.name."):
        return name
    key = name.split(".", 3)[-1]
    return next((each for each in _MECHANISM_KEYS if key.endswith(each)), key)


def _key_and_synonyms(name: str) -> tuple[str, ...]:
    if name.startswith("listener.name."):
        return name, overridden_key(name)
    return broker_synonyms(name)
