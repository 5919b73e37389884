"""Which settings a running broker takes, for itself or for all, and which it must be restarted for.

The rules, their order and their words are those of Kafka's own check before it passes a change on
to its controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.broker import known_key_of, parse_broker_text
from kafkalite.config.checks import check_broker_values
from kafkalite.config.definitions import ConfigError, UpdateMode
from kafkalite.config.keys import broker_keys, broker_synonyms, dynamic_broker_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value

_LISTENER_ONLY = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
_THREAD_COUNTS = frozenset(
    (
        "num.network.threads",
        "num.io.threads",
        "num.replica.fetchers",
        "num.recovery.threads.per.data.dir",
        "background.threads",
    )
)
_MOST_GROWTH = 2


def _refuse_any(names: Iterable[str], why: str) -> None:
    wrong = sorted(names)
    if wrong:
        raise ConfigError(wrong[0], f"{why}: [{', '.join(wrong)}]")


def check_dynamic_values(
    own: Mapping[str, str], config: BrokerConfig, *, is_per_broker: bool
) -> None:
    """Raise ConfigError unless `own` may be all the dynamic settings of one node, or of all."""
    dynamic = dynamic_broker_keys()
    known = broker_keys()
    _refuse_any(
        (name for name in own if name in known and name not in dynamic),
        "Cannot update these configs dynamically",
    )
    _refuse_any(
        (name for name in own if name.startswith(_LISTENER_ONLY)),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
    )
    parsed = parse_broker_text(own, strict=False)
    if not is_per_broker:
        _refuse_any(
            (
                name
                for name in own
                if (key := dynamic.get(known_key_of(name))) is not None
                and key.mode is UpdateMode.PER_BROKER
                and key.name in known
            ),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    _check_thread_counts(parsed, config)

    def effective(name: str) -> Value:
        for synonym in broker_synonyms(name)[:1]:
            if synonym in parsed:
                return parsed[synonym]
        return config.get(name)

    check_broker_values(effective)


def _check_thread_counts(parsed: Mapping[str, Value], config: BrokerConfig) -> None:
    for name in sorted(_THREAD_COUNTS & parsed.keys()):
        wanted, have = parsed[name], config.int(name)
        if not isinstance(wanted, int) or wanted == have:
            continue
        asked = f"Dynamic thread count update validation failed for {name}={wanted}"
        complaint = ""
        if wanted > have * _MOST_GROWTH:
            complaint = f"value should not be greater than double the current value {have}"
        elif wanted < have // _MOST_GROWTH:
            complaint = f"value should be at least half the current value {have}"
        if complaint:
            raise ConfigError(
                name,
                "Invalid value org.apache.kafka.common.config.ConfigException: "
                f"{asked}, {complaint} for configuration Invalid dynamic configuration",
            )
