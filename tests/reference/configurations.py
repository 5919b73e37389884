"""The page of configurations: brokers, topics and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.default_overrides import (
    KAFKALITE_DEFAULTS,
    MAX_INTERNAL_REPLICATION,
)
from kafkalite.config.definitions import KeyTable, UpdateMode, value_to_text
from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    topic_keys,
)
from kafkalite.config.tables import kafkalite
from kafkalite.config.unused_keys import reason_without_effect
from tests.reference.markdown import code, codes, page, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.definitions import ConfigKey

_INTRODUCTION = """\
Every configuration of a Kafka 4.4 broker, topic and group is accepted, and its value is checked.
Set broker configurations with `--config KEY=VALUE`, with `--properties FILE` or with
`Broker(config={…})`, those of one node with `--node-config ID:KEY=VALUE`. The scope is Kafka's
update mode. An admin client can change a configuration with scope *per-broker* for one broker or
for all, and one with scope *cluster-wide* for all brokers only. It cannot change one with scope *at
start*. The defaults of kafkalite are chosen for tests; `--defaults kafka` selects those of Kafka.
`null` means that the configuration is not set."""
_DEFAULTS_NOTE = """\
These are the defaults for one node. With more nodes, internal topics have up to three replicas, see
[Defaults](../explanation/defaults.md)."""

_SCOPES = {
    UpdateMode.READ_ONLY: "at start",
    UpdateMode.PER_BROKER: "per-broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
}
_HEADINGS = ("Configuration", "Type", "Default", "Values", "Effect")
_RULES = {
    "-": "",
    "non-empty": "not empty",
    "items": "no duplicates",
    "items+": "at least one, no duplicates",
    "gzip-level": "-1, or 1 to 9",
    "host-and-port": "HOST:PORT",
    "voters": "ID@HOST:PORT",
    "throttled-replicas": "* or PARTITION:BROKER",
    "share-reset": "earliest, latest or by_duration:DURATION",
}
"""Rule name in the tables → text, for valid values that are not a range or a choice."""
_CHOICES = {
    "one": "one of",
    "any-case": "one of, in any case:",
    "items": "any of",
    "items+": "at least one of",
}


def configurations_page() -> str:
    """Return the page of configurations."""
    return page(
        "Configurations",
        _INTRODUCTION,
        "## Defaults that differ from Kafka",
        _DEFAULTS_NOTE,
        table(
            ("Configuration", "kafkalite", "Kafka 4.4"),
            [
                (code(key), value, value_to_text(broker_keys()[key].default) or "")
                for key, value in KAFKALITE_DEFAULTS.items()
            ],
        ),
        "A cluster of several nodes has as many replicas of internal topics as nodes, but at most "
        f"{MAX_INTERNAL_REPLICATION}.",
        "## Configurations of kafkalite",
        "Kafka does not have these.",
        table(
            (*_HEADINGS, "Scope"),
            [
                (*_common_cells(key, values), _SCOPES[key.mode])
                for key, values in _keys_with_values(_kafkalite_keys())
            ],
        ),
        "## Brokers",
        "If a configuration has no effect, the last column gives the reason. At startup, one log "
        "line names such configurations that are set.",
        table(
            ("Configuration", "Type", "kafkalite", "Kafka 4.4", "Values", "Scope", "Effect"),
            [_broker_row(key, values) for key, values in _keys_with_values(_kafka_broker_keys())],
        ),
        "## Topics",
        "If a topic does not set a configuration, the broker configuration in the last column "
        "applies; the first of several that is set. `remote.storage.enable=true` is refused.",
        table(
            (*_HEADINGS, "Broker configuration"),
            [
                (
                    *_common_cells(key, values)[:-1],
                    _topic_effect(key),
                    codes(name for name, _ in TOPIC_SYNONYMS.get(key.name, ())),
                )
                for key, values in _keys_with_values(topic_keys())
            ],
        ),
        "## Groups",
        "If a group does not set a configuration, the broker configuration in the last column "
        "applies. Lower and upper limits are broker configurations as well, such as "
        "`group.consumer.min.session.timeout.ms`.",
        table(
            (
                "Configuration",
                "Type",
                "kafkalite",
                "Kafka 4.4",
                "Values",
                "Effect",
                "Broker configuration",
            ),
            [_group_row(key, values) for key, values in _keys_with_values(group_config_keys())],
        ),
    )


def _kafkalite_keys() -> Mapping[str, ConfigKey]:
    return KeyTable(kafkalite.KEYS)


def _kafka_broker_keys() -> Mapping[str, ConfigKey]:
    """Return the keys of Kafka's brokers."""
    return {
        name: key
        for name, key in {**dynamic_broker_keys(), **broker_keys()}.items()
        if name not in _kafkalite_keys()
    }


def _keys_with_values(keys: Mapping[str, ConfigKey]) -> Iterator[tuple[ConfigKey, str]]:
    """Yield keys by name, each with its valid values."""
    rows = broker_keys(), topic_keys(), group_config_keys()
    for name in sorted(keys):
        lines = next((table._lines[name] for table in rows if name in table), None)  # type: ignore[attr-defined]
        yield keys[name], "0 or more" if lines is None else _values(lines[0].split()[3])


def _values(rule: str) -> str:
    """Return the valid values of a rule in the tables, as text."""
    if rule in _RULES:
        return _RULES[rule]
    rule_name, bracket, choices = rule.rstrip(")").partition("(")
    if bracket:
        return f"{_CHOICES[rule_name]} {codes(choices.split('|'))}"
    minimum, _, maximum = rule.partition("..")
    return f"{minimum} to {maximum}" if maximum else f"{minimum} or more"


def _broker_row(key: ConfigKey, values: str) -> tuple[str, ...]:
    reason = reason_without_effect(key.name)
    default = code(_default_text(key))
    return (
        code(key.name),
        key.type.name.lower(),
        code(KAFKALITE_DEFAULTS[key.name]) if key.name in KAFKALITE_DEFAULTS else default,
        default,
        values,
        _SCOPES[key.mode],
        key.documentation if reason is None else f"No effect. {reason}.",
    )


def _common_cells(key: ConfigKey, values: str) -> tuple[str, ...]:
    default = code(_default_text(key))
    return (code(key.name), key.type.name.lower(), default, values, key.documentation)


def _topic_effect(key: ConfigKey) -> str:
    """Return the effect of a topic's configuration, or the reason why it has no effect."""
    synonyms = [name for name, _ in TOPIC_SYNONYMS.get(key.name, ())]
    reasons = [reason_without_effect(name) for name in synonyms or [key.name]]
    return key.documentation if None in reasons else f"No effect. {reasons[0]}."


def _group_row(key: ConfigKey, values: str) -> tuple[str, ...]:
    default, synonym = code(_default_text(key)), group_synonym(key.name) or ""
    name, type_name, _, valid_values, effect = _common_cells(key, values)
    kafkalite_default = (
        code(KAFKALITE_DEFAULTS[synonym]) if synonym in KAFKALITE_DEFAULTS else default
    )
    reason = reason_without_effect(synonym or key.name)
    if reason is not None:
        effect = f"No effect. {reason}."
    return name, type_name, kafkalite_default, default, valid_values, effect, code(synonym)


def _default_text(key: ConfigKey) -> str:
    text = value_to_text(key.default)
    return "null" if text is None else text
