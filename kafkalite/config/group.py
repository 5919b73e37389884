"""Settings of a group, and the limits that the broker sets for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import broker_keys, group_config_keys, group_synonym
from kafkalite.protocol.error_texts import ErrorText

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value


def parse_group_text(text: Mapping[str, str]) -> dict[str, Value]:
    """Return the parsed values of a group's own settings.

    Raises ConfigError if a key or value is invalid.
    """
    keys = group_config_keys()
    for name in text:
        if name not in keys:
            raise ConfigError(name, f"Unknown group config name: {name}")
    return {name: keys[name].parse(value_text) for name, value_text in text.items()}


def _bound_keys(name: str) -> Iterator[tuple[str, str]]:
    """Yield ("min" | "max", broker key) for each bound of a group's key."""
    kind, setting = name.split(".", 1)
    setting = setting.removeprefix("num.")
    for bound in ("min", "max"):
        key = f"group.{kind}.{bound}.{setting}"
        if key in broker_keys():
            yield bound, key


def clamp_to_bounds(name: str, value: Value, broker: BrokerConfig) -> Value:
    """Return `value` limited to the current bounds of the broker."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    for bound, key in _bound_keys(name):
        value = max(value, broker.int(key)) if bound == "min" else min(value, broker.int(key))
    return value


def check_group_values(text: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError if a group's own settings are invalid or outside of the broker's bounds."""
    values = parse_group_text(text)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        for bound, key in _bound_keys(name):
            if bound == "min" and value < broker.int(key):
                raise ConfigError(
                    name, ErrorText.CONFIG_IS_BELOW_ANOTHER.format(name=name, other=key)
                )
            if bound == "max" and value > broker.int(key):
                raise ConfigError(name, f"{name} must be less than or equal to {key}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _effective_value(session, values, broker) <= _effective_value(heartbeat, values, broker):
            raise ConfigError(session, f"{session} must be greater than {heartbeat}")


def _effective_value(name: str, values: Mapping[str, Value], broker: BrokerConfig) -> int:
    value = values.get(name)
    if isinstance(value, int):
        return value
    synonym = group_synonym(name)
    return 0 if synonym is None else broker.int(synonym)
