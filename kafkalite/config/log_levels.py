"""LogLevels: how loud each logger of the process is; live, and gone with the process.

Kafka counts them among the configuration of a broker, though no log keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT = "root"
BROKER = "kafkalite"


class LogLevelRequestError(ConfigError):
    """A change of a logger that Kafka calls an invalid request."""


class LogLevels:
    """Levels by logger; a logger without a level of its own has the root's."""

    __slots__ = ("_listeners", "_own")

    def __init__(self) -> None:
        self._own = {ROOT: "INFO"}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the broker's own level, whenever it changes."""
        self._listeners.append(listener)

    def begin(self, level: str) -> None:
        """Say how loud the process is from the start; nobody is told."""
        self._own = {ROOT: level}

    @property
    def effective(self) -> Mapping[str, str]:
        """Every logger and its level."""
        return {BROKER: self.level_of(BROKER), ROOT: self._own[ROOT]}

    def level_of(self, logger: str) -> str:
        """Return the level of one logger."""
        return self._own.get(logger, self._own[ROOT])

    def check_set(self, logger: str, level: str) -> None:
        """Raise ConfigError for a logger or a level that there is not."""
        self._check_logger(logger)
        if level not in LEVELS:
            raise ConfigError(
                logger,
                f"Cannot set the log level of {logger} to {level} as it is not a supported log "
                f"level. Valid log levels are {', '.join(LEVELS)}",
            )

    def check_unset(self, logger: str) -> None:
        """Raise ConfigError for a logger that there is not, or that cannot do without a level."""
        self._check_logger(logger)
        if logger == ROOT:
            raise LogLevelRequestError(
                logger, "Removing the log level of the root logger is not allowed"
            )

    @staticmethod
    def _check_logger(logger: str) -> None:
        if logger not in (ROOT, BROKER):
            raise ConfigError(logger, f"Logger {logger} does not exist!")

    def set(self, logger: str, level: str) -> None:
        """Give a logger a level of its own."""
        self._own[logger] = level
        self._tell()

    def unset(self, logger: str) -> None:
        """Let a logger follow the root again."""
        self._own.pop(logger, None)
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener(self.level_of(BROKER))
