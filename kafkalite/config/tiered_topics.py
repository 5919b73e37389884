"""Rules for topics with tiered storage: those of LogConfig.validate in Kafka 4.4.

There is no tiered storage. The rules apply so that tools and clients that configure it get Kafka's
answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import Value

_UNLIMITED: Final = -1
_SAME_AS_TOTAL: Final = -2
"""Value of the local retention that stands for the total retention."""

_UNITS: Final = ("bytes", "ms")
"""The last parts of keys for sizes and times, in the order of Kafka's checks."""

_SYSTEM_KEY: Final = "remote.log.storage.system.enable"
_ENABLE_KEY: Final = "remote.storage.enable"
_COPY_KEY: Final = "remote.log.copy.disable"
_DELETE_KEY: Final = "remote.log.delete.on.disable"


def check_tiering(get: Callable[[str], Value], broker: BrokerConfig, *, was_tiered: bool) -> None:
    """Raise ConfigError if the settings of a topic with tiered storage contradict each other.

    `get` returns the effective value of a key of the topic. `was_tiered` says that the topic had
    tiered storage and has none now; otherwise it has it now.
    """
    if was_tiered:
        if not get(_DELETE_KEY):
            raise ConfigError(_ENABLE_KEY, _KEEPS_REMOTE_DATA)
        return
    if not broker.bool(_SYSTEM_KEY):
        raise ConfigError(
            _ENABLE_KEY,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        )
    if get("cleanup.policy") not in ((), ("delete",)):
        raise ConfigError(
            "cleanup.policy",
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy "
            "being an empty list.",
        )
    for unit in _UNITS:
        _check_local_retention(get, unit)
    for unit in _UNITS:
        _check_copy_lag(get, unit)
    if get(_COPY_KEY):
        _check_read_only(get)


def disabled_topics(
    settings: Mapping[str, Mapping[str, str]], broker: BrokerConfig
) -> Sequence[str]:
    """Return the topics with tiered storage in a broker without it, sorted.

    `settings` are those of topics, as text. Kafka starts, and logs `MUST_BE_DELETED` for each.
    """
    if broker.bool(_SYSTEM_KEY):
        return ()
    return sorted(name for name, own in settings.items() if own.get(_ENABLE_KEY) == "true")


MUST_BE_DELETED: Final = (
    "You have to delete all topics with the property remote.storage.enable=true before disabling "
    "tiered storage cluster-wide"
)

_KEEPS_REMOTE_DATA: Final = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the "
    "remote data and turn to read only, please set "
    "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote "
    "storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


def _number(get: Callable[[str], Value], key: str) -> int:
    value = get(key)
    assert isinstance(value, int)  # the parser accepts numbers only
    return value


def _check_local_retention(get: Callable[[str], Value], unit: str) -> None:
    key, total_key = f"local.retention.{unit}", f"retention.{unit}"
    local, total = _number(get, key), _number(get, total_key)
    if total <= _UNLIMITED or local == _SAME_AS_TOTAL:
        return
    if local == _UNLIMITED:
        reason = f"Value must not be -1 as {total_key} value is set as {total}."
    elif local > total:
        reason = f"Value must not be more than {total_key} property value: {total}"
    else:
        return
    raise ConfigError(key, f"Invalid value {local} for configuration {key}: {reason}")


def _check_copy_lag(get: Callable[[str], Value], unit: str) -> None:
    key, local_key = f"remote.copy.lag.{unit}", f"local.retention.{unit}"
    lag, local = _number(get, key), _number(get, local_key)
    limit = _number(get, f"retention.{unit}") if local == _SAME_AS_TOTAL else local
    if lag > 0 and 0 <= limit < lag:
        reason = f"Value must not exceed {local_key} (effective value: {limit})"
        raise ConfigError(key, f"Invalid value {lag} for configuration {key}: {reason}")


def _check_read_only(get: Callable[[str], Value]) -> None:
    """Check that a topic whose records are not copied any more has one retention."""
    for unit in _UNITS:
        local = _number(get, f"local.retention.{unit}")
        if local not in (_SAME_AS_TOTAL, _number(get, f"retention.{unit}")):
            raise ConfigError(
                f"local.retention.{unit}",
                f"When `{_COPY_KEY}` is set to true, the `local.retention.{unit}` and "
                f"`retention.{unit}` must be set to the identical value because there will be no "
                "more logs copied to the remote storage.",
            )
