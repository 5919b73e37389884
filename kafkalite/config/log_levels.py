"""LogLevels: the level of each logger of the process.

In Kafka they are part of a broker's configuration, but they are not stored in a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER = "root"
BROKER_LOGGER = "kafkalite"


class LogLevelRequestError(ConfigError):
    """A change of a logger for which Kafka answers INVALID_REQUEST."""


class LogLevels:
    """Levels by logger; a logger without its own level has the level of the root logger."""

    __slots__ = ("_levels", "_listeners")

    def __init__(self) -> None:
        self._levels = {ROOT_LOGGER: "INFO"}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the level of the broker's logger whenever it changes."""
        self._listeners.append(listener)

    def set_initial_level(self, level: str) -> None:
        """Set the initial level of the process without notifications."""
        self._levels = {ROOT_LOGGER: level}

    @property
    def effective(self) -> Mapping[str, str]:
        """The level of every logger."""
        return {BROKER_LOGGER: self.level_of(BROKER_LOGGER), ROOT_LOGGER: self._levels[ROOT_LOGGER]}

    def level_of(self, logger: str) -> str:
        """Return the level of one logger."""
        return self._levels.get(logger, self._levels[ROOT_LOGGER])

    def check_set(self, logger: str, level: str) -> None:
        """Raise ConfigError for an unknown logger or level."""
        self._check_logger(logger)
        if level not in LEVELS:
            raise ConfigError(
                logger,
                f"Cannot set the log level of {logger} to {level} as it is not a supported log "
                f"level. Valid log levels are {', '.join(LEVELS)}",
            )

    def check_unset(self, logger: str) -> None:
        """Raise ConfigError for an unknown logger, and for the root, which needs a level."""
        self._check_logger(logger)
        if logger == ROOT_LOGGER:
            raise LogLevelRequestError(
                logger, "Removing the log level of the root logger is not allowed"
            )

    @staticmethod
    def _check_logger(logger: str) -> None:
        if logger not in (ROOT_LOGGER, BROKER_LOGGER):
            raise ConfigError(logger, f"Logger {logger} does not exist!")

    def set(self, logger: str, level: str) -> None:
        """Set the level of a logger."""
        self._levels[logger] = level
        self._notify()

    def unset(self, logger: str) -> None:
        """Remove the level of a logger; it then has the level of the root logger."""
        self._levels.pop(logger, None)
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener(self.level_of(BROKER_LOGGER))
