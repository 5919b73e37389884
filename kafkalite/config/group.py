"""Settings of a group, and the limits that the broker sets for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import broker_keys, group_config_keys, group_synonym
from kafkalite.protocol.error_texts import ErrorText

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value


STREAMS_ASSIGNOR_NAME: Final = "streams.assignor.name"
"""The group's setting of its assignor."""
STICKY_TASK_ASSIGNOR: Final = (
    "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
)
"""The class of Kafka with the assignor `sticky` of streams groups."""
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
"""The group's setting of its dead-letter topic (KIP-1191)."""
INTERNAL_PREFIX: Final = "__"
"""The first characters of names that no dead-letter topic can have."""


def parse_group_text(
    text: Mapping[str, str], absent: Collection[str] = frozenset()
) -> dict[str, Value]:
    """Return the parsed values of a group's own settings, without those in `absent`.

    Raises ConfigError if a key or value is invalid.
    """
    keys = group_config_keys()
    for name in text:
        if name not in keys or name in absent:
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
    release = broker.release
    values = parse_group_text(text, release.absent_settings)
    check_rack_tags("streams.rack.aware.assignment.tags", text)
    _check_streams_assignor(values, broker)
    check_value = _check_range if release.rules.has_ranges_of_group_settings else _check_bounds
    for name, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool):
            check_value(name, value, broker)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _effective_value(session, values, broker) <= _effective_value(heartbeat, values, broker):
            raise ConfigError(session, f"{session} must be greater than {heartbeat}")
    _check_dead_letter_topic(values.get(DEAD_LETTER_TOPIC))


def _check_range(name: str, value: int, broker: BrokerConfig) -> None:
    bounds = {bound: broker.int(key) for bound, key in _bound_keys(name)}
    if "min" in bounds and "max" in bounds:
        message = f"{name} must be in the range {bounds['min']} to {bounds['max']} inclusive."
    elif "max" in bounds:
        message = f"{name} must be less than or equal to {bounds['max']}"
    else:
        message = f"{name} must be greater than or equal to {bounds.get('min')}"
    if not bounds.get("min", value) <= value <= bounds.get("max", value):
        raise ConfigError(name, message)


def _check_bounds(name: str, value: int, broker: BrokerConfig) -> None:
    for bound, key in _bound_keys(name):
        if bound == "min" and value < broker.int(key):
            raise ConfigError(name, ErrorText.CONFIG_IS_BELOW_ANOTHER.format(name=name, other=key))
        if bound == "max" and value > broker.int(key):
            raise ConfigError(name, f"{name} must be less than or equal to {key}")


def _check_dead_letter_topic(name: Value) -> None:
    if isinstance(name, str) and name.startswith(INTERNAL_PREFIX):
        raise ConfigError(
            DEAD_LETTER_TOPIC,
            f"{DEAD_LETTER_TOPIC} is {name}, but the name of a dead-letter topic must not start "
            f"with {INTERNAL_PREFIX}",
        )


def check_rack_tags(name: str, text: Mapping[str, str]) -> None:
    """Raise ConfigError if the list of tags with this name has a tag twice.

    Other lists may have repeated items, which are ignored.
    """
    tags = [tag.strip() for tag in text.get(name, "").split(",")]
    if len(set(tags)) < len(tags):
        raise ConfigError(name, f"{name} has a tag twice.")


def _check_streams_assignor(values: Mapping[str, Value], broker: BrokerConfig) -> None:
    name = values.get(STREAMS_ASSIGNOR_NAME)
    known = streams_assignor_names(broker.list("group.streams.assignors"))
    if name is not None and name not in known:
        raise ConfigError(
            STREAMS_ASSIGNOR_NAME,
            f"The assignor {name} in {STREAMS_ASSIGNOR_NAME} is not one of {', '.join(known)}.",
        )


def streams_assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the assignors in `group.streams.assignors`, the default first."""
    return tuple("sticky" if name == STICKY_TASK_ASSIGNOR else name for name in configured)


def _effective_value(name: str, values: Mapping[str, Value], broker: BrokerConfig) -> int:
    value = values.get(name)
    if isinstance(value, int):
        return value
    synonym = group_synonym(name)
    return 0 if synonym is None else broker.int(synonym)
