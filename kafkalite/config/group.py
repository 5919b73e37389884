"""What a group is set to, and the bounds its broker keeps it in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import broker_keys, group_config_keys, group_synonym

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value


def parse_group_text(text: Mapping[str, str]) -> dict[str, Value]:
    """Return a group's own settings parsed; ConfigError for an unknown key or a bad value."""
    keys = group_config_keys()
    for name in text:
        if name not in keys:
            raise ConfigError(name, f"Unknown group config name: {name}")
    return {name: keys[name].parse(value_text) for name, value_text in text.items()}


def _bounds(name: str) -> Iterator[tuple[str, str]]:
    """Yield the broker keys that bound a group's key: ("min" | "max", key)."""
    kind, subject = name.split(".", 1)
    subject = subject.removeprefix("num.")
    for end in ("min", "max"):
        key = f"group.{kind}.{end}.{subject}"
        if key in broker_keys():
            yield end, key


def within_bounds(name: str, value: Value, broker: BrokerConfig) -> Value:
    """Return `value` capped to what the broker allows a group now."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    for end, key in _bounds(name):
        value = max(value, broker.int(key)) if end == "min" else min(value, broker.int(key))
    return value


def check_group_values(text: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError when a group's own settings are wrong, or not what its broker allows."""
    own = parse_group_text(text)
    for name, value in own.items():
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        for end, key in _bounds(name):
            if end == "min" and value < broker.int(key):
                raise ConfigError(name, f"{name} must be greater than or equal to {key}")
            if end == "max" and value > broker.int(key):
                raise ConfigError(name, f"{name} must be less than or equal to {key}")
    for kind in ("consumer", "share", "streams"):
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _effective(session, own, broker) <= _effective(beat, own, broker):
            raise ConfigError(session, f"{session} must be greater than {beat}")


def _effective(name: str, own: Mapping[str, Value], broker: BrokerConfig) -> int:
    value = own.get(name)
    if isinstance(value, int):
        return value
    synonym = group_synonym(name)
    return 0 if synonym is None else broker.int(synonym)
