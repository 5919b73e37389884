"""Dynamic updates of a broker: which settings may change without a restart.

The rules, their order and their messages are those of Kafka's check before it forwards a change to
its controller.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.config.broker import known_settings, parse_broker_text, strip_listener_prefix
from kafkalite.config.constraints import check_broker_values, check_copy_lags, check_local_retention
from kafkalite.config.definitions import ConfigError, UpdateMode, parse_value
from kafkalite.config.keys import broker_keys, dynamic_broker_keys
from kafkalite.protocol.error_texts import ErrorText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value

_PER_LISTENER_PREFIXES = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
_LISTENER_KEYS = frozenset(("listeners", "listener.security.protocol.map"))
_LISTENER_PATTERN = r".*://\[?[0-9a-zA-Z\-%._:]*\]?:-?[0-9]+"
_THREAD_COUNTS = frozenset(
    (
        "num.network.threads",
        "num.io.threads",
        "num.replica.fetchers",
        "num.recovery.threads.per.data.dir",
        "background.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)
_RETENTION_KEYS = frozenset(
    (
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.retention.bytes",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.retention.ms",
    )
)
_PROVIDERS = "config.providers"
"""Kafka removes these names when it resolves references, before it checks lists."""
_MAX_CHANGE_FACTOR = 2
"""One update can at most double a number of threads, or halve it."""


def _reject_keys(
    names: Iterable[str], template: str, config: BrokerConfig, scala_set: str = "Set"
) -> None:
    """Raise ConfigError for the first of the names, with a message that lists all.

    `scala_set` is the name of the set with which releases that use Scala print them.
    """
    invalid = sorted(names)
    if not invalid:
        return
    listed = ", ".join(invalid)
    is_java = config.release.rules.prints_sets_of_java
    printed = f"[{listed}]" if is_java else f"{scala_set}({listed})"
    raise ConfigError(invalid[0], template.replace("[{names}]", printed))


def _check_dynamic(text: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise ConfigError for settings that cannot change without a restart or a listener."""
    known = config.described_keys
    _reject_keys(
        (name for name in text if name in known and known[name].mode is UpdateMode.READ_ONLY),
        ErrorText.CONFIG_IS_NOT_DYNAMIC.template,
        config,
    )
    _reject_keys(
        (name for name in text if name.startswith(_PER_LISTENER_PREFIXES)),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix: [{names}]",
        config,
        "HashSet",
    )


def _check_for_all_nodes(text: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise ConfigError for settings that only a single node can have."""
    dynamic = dynamic_broker_keys()
    _reject_keys(
        (
            name
            for name in text
            if (key := dynamic.get(strip_listener_prefix(name))) is not None
            and key.mode is UpdateMode.PER_BROKER
            and key.name in config.described_keys
        ),
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "[{names}]",
        config,
    )


def check_dynamic_values(
    text: Mapping[str, str], config: BrokerConfig, *, is_per_broker: bool
) -> None:
    """Raise ConfigError unless `text` is valid as the dynamic settings of one node or all nodes."""
    text = known_settings(text, config.release)
    _check_dynamic(text, config)
    parsed = _parse(text, config)
    if not is_per_broker:
        _check_for_all_nodes(text, config)
    known = config.described_keys
    effective_value = config.value_lookup(parsed, is_per_broker=is_per_broker)
    if parsed.keys() & _LISTENER_KEYS:
        _check_listeners(effective_value, config)
    check_broker_values(effective_value)
    changed = {*parsed, *config.dynamic_keys(is_per_broker=is_per_broker)}
    for check in _CHECKS:
        for name in sorted(changed):
            value = effective_value(name) if name in known else parsed.get(name)
            if (reason := check(name, value, config)) is not None:
                raise _reconfiguration_error(name, reason)
    for apply_check in config.dynamic_checks:
        try:
            apply_check(changed, effective_value)
        except ConfigError as error:
            raise _reconfiguration_error(error.key, error.message) from None
    if changed & _RETENTION_KEYS:
        try:
            check_local_retention(effective_value)
            check_copy_lags(effective_value)
        except ConfigError as error:
            raise _reconfiguration_error(error.key, error.message) from None


def _parse(text: Mapping[str, str], config: BrokerConfig) -> dict[str, Value]:
    if config.release.rules.refuses_repeated_broker_values:
        _check_unparsed_lists(text)
    return parse_broker_text(text, strict=False)


def _check_unparsed_lists(text: Mapping[str, str]) -> None:
    """Raise ConfigError for an invalid list before the parser removes its repeated items."""
    known = broker_keys()
    for name, key in dynamic_broker_keys().items():
        if name not in text or name not in known or name == _PROVIDERS or key.validator is None:
            continue
        value = parse_value(name, key.type, text[name])
        if isinstance(value, tuple) and (reason := key.validator(name, value)) is not None:
            raise ConfigError(name, reason)


def _check_listeners(effective_value: Callable[[str], Value], config: BrokerConfig) -> None:
    """Check that every listener has a security protocol, and that listeners in use remain."""
    used = tuple(config.node_setting("listeners").split(","))
    listeners = effective_value("listeners") or used
    protocol_map = str(effective_value("listener.security.protocol.map")).upper().split(",")
    protocols = {pair.strip().partition(":")[0] for pair in protocol_map}
    names = set()
    for listener in listeners if isinstance(listeners, tuple) else ():
        name = listener.partition("://")[0].upper()
        if not re.fullmatch(_LISTENER_PATTERN, listener) or name not in protocols:
            raise ConfigError(
                "listeners",
                f"Error creating broker listeners: {listener!r} is not an endpoint, or its name "
                "has no protocol",
            )
        names.add(name)
    removed = {listener.partition("://")[0].upper() for listener in used} - names
    if removed:
        raise ConfigError(
            "listeners",
            f"Advertised listeners '{', '.join(sorted(removed))}' must be a subset of listeners",
        )


def _reconfiguration_error(name: str, reason: str) -> ConfigError:
    """Return the error that Kafka reports when a part of the broker cannot apply a change."""
    return ConfigError(
        name,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} "
        "for configuration Invalid dynamic configuration",
    )


def _check_thread_count(name: str, value: Value, config: BrokerConfig) -> str | None:
    if name not in _THREAD_COUNTS or not isinstance(value, int):
        return None
    current = config.int(name)
    prefix = f"Dynamic thread count update validation failed for {name}={value}"
    if value > current * _MAX_CHANGE_FACTOR:
        return f"{prefix}, value should not be greater than double the current value {current}"
    if value < current // _MAX_CHANGE_FACTOR:
        return f"{prefix}, value should be at least half the current value {current}"
    return None


def _check_cleaner_threads(name: str, value: Value, config: BrokerConfig) -> str | None:
    if name != "log.cleaner.threads" or not isinstance(value, int):
        return None
    current = config.int(name)
    if value < current // _MAX_CHANGE_FACTOR:
        return (
            f"Log cleaner threads cannot be reduced to less than half the current value {current}"
        )
    if value > current * _MAX_CHANGE_FACTOR:
        return (
            "Log cleaner threads cannot be increased to more than double the current value "
            f"{current}"
        )
    return None


def _check_connection_limit(name: str, value: Value, config: BrokerConfig) -> str | None:
    del config  # required parameter of a check
    key = strip_listener_prefix(name)
    is_zero = key in ("max.connections", "max.connection.creation.rate") and value == 0
    return f"Invalid {key} 0" if is_zero else None


def _check_reporters(name: str, value: Value, config: BrokerConfig) -> str | None:
    del config  # required parameter of a check
    if name != "metric.reporters" or not isinstance(value, tuple):
        return None
    default = broker_keys()[name].default
    loadable = default if isinstance(default, tuple) else ()
    unknown = [name for name in value if name not in loadable]
    return f"Class {unknown[0]} could not be found." if unknown else None


_CHECKS = (
    _check_thread_count,
    _check_cleaner_threads,
    _check_connection_limit,
    _check_reporters,
)
"""Checks that Kafka makes in the parts of a broker that apply a change."""
