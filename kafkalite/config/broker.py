"""BrokerConfig: what a broker is set to, now.

One object is handed to everybody at assembly and stays: a dynamic change swaps the values behind
it, so that whoever asks later sees the change at once and nobody has to be told.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from kafkalite.config.checks import check_broker_values
from kafkalite.config.definitions import ConfigError, Value
from kafkalite.config.group import within_bounds
from kafkalite.config.keys import (
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
)
from kafkalite.config.log_levels import LogLevels
from kafkalite.config.preset import PRESET
from kafkalite.config.releases import presented

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.releases import Release

_PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
"""Keys under these are free: they configure one listener, or a plug-in."""


def known_key_of(name: str) -> str:
    """Return the key a listener-prefixed name configures, else the name itself."""
    if not name.startswith("listener.name."):
        return name
    return name.split(".", 3)[-1]


def is_known_key(name: str) -> bool:
    """Whether a properties file may have this key: ours, a listener's own, or a plug-in's."""
    return name in broker_keys() or name.startswith(_PREFIXES)


def parse_broker_text(text: Mapping[str, str], *, strict: bool) -> dict[str, Value]:
    """Return parsed values by key; ConfigError for a bad value, and for unknown keys if strict."""
    keys = broker_keys()
    parsed: dict[str, Value] = {}
    for name, value_text in text.items():
        key = keys.get(known_key_of(name)) or (None if strict else dynamic_broker_keys().get(name))
        if key is not None:
            parsed[name] = key.parse(value_text)
        elif strict and not name.startswith(_PREFIXES):
            raise ConfigError(name, _unknown_key_message(name))
        else:
            parsed[name] = value_text
    return parsed


def _unknown_key_message(name: str) -> str:
    import difflib  # noqa: PLC0415 - only a misspelt key needs it, and starting must not pay

    near = difflib.get_close_matches(name, broker_keys(), n=1, cutoff=0.8)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"Unknown configuration {name}{hint}"


class _WithDefaults(dict[str, Value]):
    """Values by key; the default of one that is not set is looked up once and kept."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        default = self[key] = broker_keys()[key].default
        return default


class BrokerConfig:
    """Parsed values by Kafka's names, dynamic ones included; reading is by type."""

    __slots__ = (
        "_groups", "_node_text", "_static", "_static_text", "_values", "log_levels", "release",
    )  # fmt: skip

    def __init__(
        self, static_text: Mapping[str, str], static: Mapping[str, Value], release: Release
    ) -> None:
        self.release = release
        """What the broker presents itself as."""
        self._static_text = static_text
        self._static = static
        self._values: Mapping[str, Value] = _WithDefaults(static)
        self._groups: Mapping[str, Mapping[str, Value]] = {}
        self.log_levels = LogLevels()
        self._node_text: dict[builtins.int, Mapping[str, str]] = {}

    @classmethod
    def from_text(
        cls,
        text: Mapping[str, str] | None = None,
        *,
        strict: bool = True,
        as_version: str | None = None,
    ) -> BrokerConfig:
        """Return the configuration that `text` sets, over kafkalite's preset and Kafka's defaults.

        ConfigError names the key at fault. Without `strict` unknown keys are kept, as Kafka keeps
        them for plug-ins. With `as_version` it is that of a Kafka of this release.
        """
        release = presented(as_version)
        static_text = {**PRESET, **release.settings, **(text or {})}
        static = parse_broker_text(static_text, strict=strict)
        config = cls(static_text, static, release)
        check_broker_values(config.get)
        return config

    @property
    def static_text(self) -> Mapping[str, str]:
        """What the properties file and the preset say, as written."""
        return self._static_text

    def set_apart(self, node_id: builtins.int, text: Mapping[builtins.str, builtins.str]) -> None:
        """Say what one node has for itself, such as its listeners; for describing alone."""
        self._node_text[node_id] = text

    def node_text(self, node_id: builtins.int) -> Mapping[builtins.str, builtins.str]:
        """Return what a properties file of one node would say, as written."""
        own = {"node.id": f"{node_id}", "broker.id": f"{node_id}"}
        return {**self._static_text, **own, **self._node_text.get(node_id, {})}

    def get(self, key: builtins.str) -> Value:
        """Return the value of `key`, its default when unset; KeyError for an unknown key."""
        return self._values[key]

    def int(self, key: builtins.str) -> builtins.int:
        """Return the value of an integer key; TypeError when it is another type or null."""
        value = self.get(key)
        if not isinstance(value, builtins.int):
            raise TypeError(f"{key} is not an integer")
        return value

    def str(self, key: builtins.str) -> builtins.str:
        """Return the value of a string key; TypeError when it is another type or null."""
        value = self.get(key)
        if not isinstance(value, builtins.str):
            raise TypeError(f"{key} is not a string")
        return value

    def str_or_none(self, key: builtins.str) -> builtins.str | None:
        """Return the value of a string key, None when it is null."""
        return None if self.get(key) is None else self.str(key)

    def bool(self, key: builtins.str) -> builtins.bool:
        """Return the value of a boolean key; TypeError when it is another type."""
        value = self.get(key)
        if not isinstance(value, builtins.bool):
            raise TypeError(f"{key} is not a boolean")
        return value

    def float(self, key: builtins.str) -> builtins.float:
        """Return the value of a double key; TypeError when it is another type."""
        value = self.get(key)
        if not isinstance(value, builtins.float):
            raise TypeError(f"{key} is not a double")
        return value

    def list(self, key: builtins.str) -> tuple[builtins.str, ...]:
        """Return the items of a list key, none when it is null; TypeError for another type."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, tuple):
            raise TypeError(f"{key} is not a list")
        return value

    def group_get(self, group_id: builtins.str, key: builtins.str) -> Value:
        """Return a group's own setting, else what its broker synonym says, else the default."""
        own = self._groups.get(group_id)
        if own is not None and key in own:
            return within_bounds(key, own[key], self)
        synonym = group_synonym(key)
        return group_config_keys()[key].default if synonym is None else self.get(synonym)

    def group_int(self, group_id: builtins.str, key: builtins.str) -> builtins.int:
        """Return an integer setting of a group, such as `consumer.session.timeout.ms`."""
        value = self.group_get(group_id, key)
        if not isinstance(value, builtins.int):
            raise TypeError(f"{key} is not an integer")
        return value

    def publish(
        self,
        dynamic: Mapping[builtins.str, builtins.str],
        groups: Mapping[builtins.str, Mapping[builtins.str, builtins.str]],
    ) -> None:
        """Let dynamic settings take effect; what they no longer mention falls back.

        Called by the metadata controller alone. Values were validated before they were recorded.
        """
        parsed = parse_broker_text(dynamic, strict=False)
        self._values = _WithDefaults({**self._static, **parsed})
        keys = group_config_keys()
        self._groups = {
            group_id: {name: keys[name].parse(text) for name, text in own.items() if name in keys}
            for group_id, own in groups.items()
        }
