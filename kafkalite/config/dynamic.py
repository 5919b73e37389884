"""Which settings a running broker takes, for itself or for all, and which it must be restarted for.

The rules, their order and their words are those of Kafka's own check before it passes a change on
to its controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.broker import known_key_of, parse_broker_text
from kafkalite.config.checks import check_broker_values
from kafkalite.config.definitions import ConfigError, UpdateMode
from kafkalite.config.keys import RETENTION_SYNONYMS, broker_keys, dynamic_broker_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
        "log.cleaner.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)
_RETENTION = frozenset(
    (
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.retention.bytes",
        "log.retention.ms",
    )
)
_MOST_GROWTH = 2
_UNLIMITED = -1
_SAME_AS_ALL = -2


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

    def effective(name: str) -> Value:
        return parsed[name] if name in parsed else config.get(name)

    _check_cordoned(effective)
    check_broker_values(effective)
    for kind in ("consumer", "share", "streams"):
        _check_assignment_interval(kind, effective)
    for check in (_thread_count_complaint, _connection_complaint, _reporter_complaint):
        for name in sorted(parsed):
            if (complaint := check(name, parsed[name], config)) is not None:
                raise _undone(name, complaint)
    if parsed.keys() & _RETENTION:
        _check_local_retention(effective)


def _undone(name: str, complaint: str) -> ConfigError:
    """Return a refusal by the part of a broker that would have to follow the change."""
    return ConfigError(
        name,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {complaint} "
        "for configuration Invalid dynamic configuration",
    )


def _thread_count_complaint(name: str, wanted: Value, config: BrokerConfig) -> str | None:
    if name not in _THREAD_COUNTS or not isinstance(wanted, int):
        return None
    have = config.int(name)
    asked = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted > have * _MOST_GROWTH:
        return f"{asked}, value should not be greater than double the current value {have}"
    if wanted < have // _MOST_GROWTH:
        return f"{asked}, value should be at least half the current value {have}"
    return None


def _connection_complaint(name: str, wanted: Value, config: BrokerConfig) -> str | None:
    del config  # every check takes it
    is_none = name in ("max.connections", "max.connection.creation.rate") and wanted == 0
    return f"Invalid {name} 0" if is_none else None


def _reporter_complaint(name: str, wanted: Value, config: BrokerConfig) -> str | None:
    del config  # every check takes it
    if name != "metric.reporters" or not isinstance(wanted, tuple):
        return None
    default = broker_keys()[name].default
    loadable = default if isinstance(default, tuple) else ()
    strange = [each for each in wanted if each not in loadable]
    return f"Class {strange[0]} could not be found." if strange else None


def _check_cordoned(effective: Callable[[str], Value]) -> None:
    cordoned, directories = effective("cordoned.log.dirs"), effective("log.dirs")
    if not isinstance(cordoned, tuple) or cordoned in ((), ("*",)):
        return
    known = directories if isinstance(directories, tuple) else ()
    missing = [each for each in cordoned if each not in known]
    if missing:
        raise ConfigError(
            "cordoned.log.dirs",
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
            f"log.dir. Missing entries : {','.join(missing)}",
        )


def _check_assignment_interval(kind: str, effective: Callable[[str], Value]) -> None:
    own, least, most = (f"group.{kind}.{end}assignment.interval.ms" for end in ("", "min.", "max."))
    value, low, high = effective(own), effective(least), effective(most)
    if not isinstance(value, int) or not isinstance(low, int) or not isinstance(high, int):
        return
    if value < low:
        raise ConfigError(own, f"{own} must be greater than or equal to {least}")
    if value > high:
        raise ConfigError(own, f"{own} must be less than or equal to {most}")


def _check_local_retention(effective: Callable[[str], Value]) -> None:
    """Check that what a broker keeps of tiered logs is no more than what is kept at all."""
    for local, all_of_it, limit in (
        ("log.local.retention.ms", "log.retention.ms", _retention_ms(effective)),
        ("log.local.retention.bytes", "log.retention.bytes", effective("log.retention.bytes")),
    ):
        value = effective(local)
        if not isinstance(value, int) or not isinstance(limit, int) or value == _SAME_AS_ALL:
            continue
        if limit == _UNLIMITED:
            continue
        if value == _UNLIMITED:
            raise _undone(
                local,
                f"Invalid value -1 for configuration {local}: Value must not be -1 as {all_of_it} "
                f"value is set as {limit}.",
            )
        if value > limit:
            raise _undone(
                local,
                f"Invalid value {value} for configuration {local}: Value must not be more than "
                f"{all_of_it} property value: {limit}",
            )


def _retention_ms(effective: Callable[[str], Value]) -> int:
    for name, factor in RETENTION_SYNONYMS:
        value = effective(name)
        if isinstance(value, int):
            return _UNLIMITED if value < 0 else value * factor
    return _UNLIMITED
