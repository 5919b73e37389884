"""Settings of a topic: its own, otherwise the broker's, otherwise the default."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import TOPIC_SYNONYMS, topic_keys
from kafkalite.config.log_config import LogConfig
from kafkalite.config.tables.topic import OLD_SYNONYMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import ConfigKey, Value

UNLIMITED = -1
_TIERED = "remote.storage.enable"
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


def parse_topic_text(text: Mapping[str, str], keys: Mapping[str, ConfigKey]) -> dict[str, Value]:
    """Return the parsed values of a topic's own settings.

    Raises ConfigError if a key or value is invalid.
    """
    for name in text:
        if name not in keys:
            raise ConfigError(name, f"Unknown topic config name: {name}")
    return {name: keys[name].parse(value_text) for name, value_text in text.items()}


def check_topic_values(
    text: Mapping[str, str], broker: BrokerConfig, existing: Mapping[str, str] = _NO_SETTINGS
) -> None:
    """Raise ConfigError if a topic's own settings are invalid or contradict each other.

    `existing` are its settings before the change.
    """
    values = parse_topic_text(text, broker.topic_keys)

    def effective_value(name: str) -> Value:
        return values[name] if name in values else topic_default(name, broker)

    min_lag_ms, max_lag_ms = (
        effective_value("min.compaction.lag.ms"),
        effective_value("max.compaction.lag.ms"),
    )
    if isinstance(min_lag_ms, int) and isinstance(max_lag_ms, int) and min_lag_ms > max_lag_ms:
        raise ConfigError(
            "min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({min_lag_ms}) > "
            f"max.compaction.lag.ms ({max_lag_ms})",
        )
    is_tiered = values.get(_TIERED)
    if is_tiered or (existing.get(_TIERED) or "").strip().lower() == "true":
        from kafkalite.config.tiered_topics import check_tiering  # noqa: PLC0415 - rarely used

        check_tiering(effective_value, broker, was_tiered=not is_tiered)


def topic_default(name: str, broker: BrokerConfig) -> Value:
    """Return the value that a topic without its own setting gets from the broker."""
    for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
        value = broker.get(synonym)
        if value is None:
            continue
        if name == "retention.ms" and isinstance(value, int) and value < 0:
            return UNLIMITED
        return value * factor if factor != 1 and isinstance(value, int) else value
    if name in OLD_SYNONYMS and (value := broker.get_if_set(OLD_SYNONYMS[name])) is not None:
        return value
    return broker.topic_keys[name].default


def topic_value(name: str, overrides: Mapping[str, str], broker: BrokerConfig) -> Value:
    """Return the value of a topic's setting; its own setting has precedence."""
    if name in overrides:
        # A cluster may have settings of a later release than it now emulates.
        key = broker.topic_keys.get(name) or topic_keys()[name]
        return key.parse(overrides[name])
    return topic_default(name, broker)


_DOWN_CONVERSION = "message.downconversion.enable"
_LOG_FIELDS = {name.replace(".", "_"): name for name in TOPIC_SYNONYMS}


def topic_log_config(overrides: Mapping[str, str], broker: BrokerConfig) -> LogConfig:
    """Return the settings that the logs of a topic use."""
    values: dict[str, object] = {
        field: topic_value(name, overrides, broker)
        for field, name in _LOG_FIELDS.items()
        if field in LogConfig._fields
    }
    values["cleanup_policy"] = frozenset(cast("tuple[str, ...]", values["cleanup_policy"]))
    if _DOWN_CONVERSION in broker.topic_keys:
        values["message_downconversion_enable"] = topic_value(_DOWN_CONVERSION, overrides, broker)
    # The minimum of segment.bytes is 1 MiB; Kafka's own tests set smaller sizes with this key.
    if "internal.segment.bytes" in overrides:
        values["segment_bytes"] = int(overrides["internal.segment.bytes"])
    return LogConfig(**values)  # type: ignore[arg-type]
