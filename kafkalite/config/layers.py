"""Where a broker's setting comes from: one node, all nodes, the properties file, or the default.

DescribeConfigs shows a setting with its synonyms: every layer and every related key that says
something about it, the one that counts first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkalite.config.definitions import value_to_text
from kafkalite.config.keys import broker_keys, broker_synonyms

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigSource(IntEnum):
    """Where a value was set, numbered as on the wire."""

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
    """One place that says something about a setting."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """What is set for one node, as text by key, from the layer that counts most."""

    node: Mapping[str, str]
    everybody: Mapping[str, str]
    static: Mapping[str, str]

    def synonyms(self, name: str, *, is_sensitive: bool = False) -> tuple[Synonym, ...]:
        """Return what is said about a broker key, nearest first.

        As in Kafka, whatever comes before the first mention of the key itself is left out: so a
        key without a value of its own has no synonyms, even where a related key decides.
        """
        names = _names_of(name)
        found = [
            Synonym(key, None if is_sensitive else layer[key], source)
            for layer, source in (
                (self.node, ConfigSource.DYNAMIC_BROKER),
                (self.everybody, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self.static, ConfigSource.STATIC_BROKER),
            )
            for key in names
            if key in layer
        ]
        for key in names:
            definition = broker_keys().get(key)
            default = None if definition is None else value_to_text(definition.default)
            if default is not None:
                shown = None if is_sensitive else default
                found.append(Synonym(key, shown, ConfigSource.DEFAULT))
        while found and found[0].name != name:
            found.pop(0)
        return tuple(found)


def _names_of(name: str) -> tuple[str, ...]:
    if name.startswith("listener.name."):
        return name, name.split(".", 3)[-1]
    return broker_synonyms(name)
