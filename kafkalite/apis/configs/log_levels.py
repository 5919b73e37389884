"""Loggers as resources: BROKER_LOGGER of DescribeConfigs and IncrementalAlterConfigs (KIP-412)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError
from kafkalite.config.describe import ConfigEntry
from kafkalite.config.layers import ConfigSource
from kafkalite.config.log_levels import LogLevelRequestError
from kafkalite.metadata.configs import AlterOperation
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.log_levels import LogLevels
    from kafkalite.metadata.configs import ConfigChange


def describe_loggers(levels: LogLevels) -> Iterator[ConfigEntry]:
    """Yield the level of each logger."""
    for name, level in levels.effective.items():
        yield ConfigEntry(name=name, value=level, source=ConfigSource.DYNAMIC_BROKER_LOGGER)


def alter_loggers(
    levels: LogLevels, changes: Sequence[ConfigChange], *, validate_only: bool
) -> None:
    """Set or unset levels, all of them or none; raises KafkaError if one is invalid."""
    try:
        for change in changes:
            _check(levels, change)
    except LogLevelRequestError as refusal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal.message) from refusal
    except ConfigError as refusal:
        raise KafkaError(ErrorCode.INVALID_CONFIG, refusal.message) from refusal
    if validate_only:
        return
    for change in changes:
        if change.operation is AlterOperation.SET:
            levels.set(change.name, change.value or "")
        else:
            levels.unset(change.name)


def _check(levels: LogLevels, change: ConfigChange) -> None:
    if change.operation is AlterOperation.SET:
        levels.check_set(change.name, change.value or "")
    elif change.operation is AlterOperation.DELETE:
        levels.check_unset(change.name)
    else:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource",
        )
