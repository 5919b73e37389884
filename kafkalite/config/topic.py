"""What a topic is set to: its own settings, else the broker's, else the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import TOPIC_SYNONYMS, topic_keys
from kafkalite.config.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value

UNLIMITED = -1


def parse_topic_text(text: Mapping[str, str]) -> dict[str, Value]:
    """Return a topic's own settings parsed; ConfigError for an unknown key or a bad value."""
    keys = topic_keys()
    for name in text:
        if name not in keys:
            raise ConfigError(name, f"Unknown topic config name: {name}")
    return {name: keys[name].parse(value_text) for name, value_text in text.items()}


def check_topic_values(text: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError when a topic's own settings are wrong, alone or together."""
    own = parse_topic_text(text)

    def effective(name: str) -> Value:
        return own[name] if name in own else topic_default(name, broker)

    least, most = effective("min.compaction.lag.ms"), effective("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ConfigError(
            "min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})",
        )
    if own.get("remote.storage.enable"):
        raise ConfigError(
            "remote.storage.enable",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        )


def topic_default(name: str, broker: BrokerConfig) -> Value:
    """Return what a topic that says nothing of `name` gets from its broker."""
    for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
        value = broker.get(synonym)
        if value is None:
            continue
        if name == "retention.ms" and isinstance(value, int) and value < 0:
            return UNLIMITED
        return value * factor if factor != 1 and isinstance(value, int) else value
    return topic_keys()[name].default


def topic_value(name: str, overrides: Mapping[str, str], broker: BrokerConfig) -> Value:
    """Return what a topic is set to; its own word counts first."""
    if name in overrides:
        return topic_keys()[name].parse(overrides[name])
    return topic_default(name, broker)


_LOG_FIELDS = {name.replace(".", "_"): name for name in TOPIC_SYNONYMS}


def topic_log_config(overrides: Mapping[str, str], broker: BrokerConfig) -> LogConfig:
    """Return what the log of a topic's partition needs to know."""
    values: dict[str, object] = {
        field: topic_value(name, overrides, broker)
        for field, name in _LOG_FIELDS.items()
        if field in LogConfig._fields
    }
    values["cleanup_policy"] = frozenset(cast("tuple[str, ...]", values["cleanup_policy"]))
    # The least segment that Kafka takes is a mebibyte; its own tests go below by this key.
    if "internal.segment.bytes" in overrides:
        values["segment_bytes"] = int(overrides["internal.segment.bytes"])
    return LogConfig(**values)  # type: ignore[arg-type]
