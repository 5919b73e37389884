"""Log: lines with fields, for people or for machines, written by structlog.

structlog is imported when the first line is written: importing it takes as long as importing the
rest of the broker, and a broker without problems writes no line. It is not configured globally,
because the process may be a test suite with a logging configuration of its own.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from kafkalite.ports.int_enums import IntEnum

if TYPE_CHECKING:
    from structlog.typing import Processor


class Level(IntEnum):
    """The severity of a line; a log writes lines of its own level and above."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def kafka_name(self) -> str:
        """The name of the level in Kafka's tools."""
        return "WARN" if self is Level.WARNING else self.name

    @classmethod
    def of_kafka(cls, name: str) -> Level:
        """Return the level nearest to one of Kafka's six."""
        nearest = {"TRACE": cls.DEBUG, "WARN": cls.WARNING, "FATAL": cls.ERROR}
        return nearest.get(name) or cls[name]


_ALL_LEVELS = 0
"""structlog writes all lines: `Log` filters them, because its level can change."""

STYLES = ("console", "json")


class Log:
    """A log that writes lines of at least `level`, in one of STYLES, to `stream` or stderr.

    The level may change at any time. A line that cannot be written is lost without an exception.
    """

    __slots__ = ("_logger", "_stream", "_style", "level")

    def __init__(
        self, level: Level = Level.INFO, style: str = "console", stream: TextIO | None = None
    ) -> None:
        self.level = level
        self._style = style
        self._stream = stream
        self._logger: Any = None

    def debug(self, event: str, **fields: object) -> None:
        """Write a line that helps to find bugs."""
        if self.level <= Level.DEBUG:
            self._write(Level.DEBUG, event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Write a line about normal operation."""
        if self.level <= Level.INFO:
            self._write(Level.INFO, event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write a line about a problem outside of this broker: a client, the disk, the settings."""
        if self.level <= Level.WARNING:
            self._write(Level.WARNING, event, **fields)

    def error(self, event: str, exception: BaseException | None = None, **fields: object) -> None:
        """Write a line about a bug of this broker, with the traceback of the exception."""
        if self.level <= Level.ERROR:
            self._write(Level.ERROR, event, exc_info=exception, **fields)

    def _write(self, level: Level, event: str, **fields: object) -> None:
        """Write a line; a line that cannot be written does not fail the caller."""
        try:
            self._structlog().log(level, event, **fields)
        except (ImportError, OSError, ValueError):
            # There is no free descriptor to import structlog, the disk is full, or stderr is
            # closed.
            with suppress(OSError, ValueError):
                print(level.name, event, fields, file=self._stream or sys.stderr, flush=True)

    def _structlog(self) -> Any:  # noqa: ANN401 - the type in structlog
        if self._logger is None:
            import structlog  # noqa: PLC0415 - see the module's docstring

            stream = self._stream or sys.stderr
            processors: list[Processor] = [
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
            ]
            if self._style == "json":
                # Values of local variables can be passwords and tokens.
                transformer = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
                processors.append(structlog.processors.ExceptionRenderer(transformer))
                processors.append(structlog.processors.JSONRenderer(default=str))
            else:
                processors.append(
                    structlog.dev.ConsoleRenderer(
                        colors=stream.isatty(),
                        exception_formatter=structlog.dev.plain_traceback,
                    )
                )
            self._logger = structlog.wrap_logger(
                structlog.PrintLogger(stream),
                processors=processors,
                wrapper_class=structlog.make_filtering_bound_logger(_ALL_LEVELS),
                cache_logger_on_first_use=True,
            )
        return self._logger
