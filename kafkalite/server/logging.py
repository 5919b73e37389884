"""Log lines: data, for people or for machines, written by structlog.

structlog is imported for the first line that is written, not before: it takes as long to import
as the rest of the broker, and a broker that runs well writes nothing. It is not configured
globally either, for this process may be a test suite that logs in its own way.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

from kafkalite.apis.table import TABLE
from kafkalite.wire.headers import unpack_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import Processor

    from kafkalite.apis.context import RequestContext
    from kafkalite.wire.session import Owed, Pieces


class Level(IntEnum):
    """How loud a line is; a log is as quiet as it is told to be."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def kafka_name(self) -> str:
        """What Kafka's tools call it."""
        return "WARN" if self is Level.WARNING else self.name

    @classmethod
    def of_kafka(cls, name: str) -> Level:
        """Return the level nearest to one of Kafka's six."""
        nearest = {"TRACE": cls.DEBUG, "WARN": cls.WARNING, "FATAL": cls.ERROR}
        return nearest.get(name) or cls[name]


_EVERYTHING = 0
"""structlog filters nothing: a level that changes while the broker runs is looked up here."""

STYLES = ("console", "json")


class Log:
    """A log that writes lines of at least `level`, in one of STYLES, to `stream` or stderr.

    The level may change at any time. A line that cannot be written is lost, and nothing else.
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
        """Say what only somebody who looks for a fault wants to know."""
        if self.level <= Level.DEBUG:
            self._say(Level.DEBUG, event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Say that something went as it should."""
        if self.level <= Level.INFO:
            self._say(Level.INFO, event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Say that somebody else did something wrong."""
        if self.level <= Level.WARNING:
            self._say(Level.WARNING, event, **fields)

    def error(self, event: str, exception: BaseException | None = None, **fields: object) -> None:
        """Say that we did something wrong, with the whole of the exception that shows it."""
        if self.level <= Level.ERROR:
            self._say(Level.ERROR, event, exc_info=exception, **fields)

    def _say(self, level: Level, event: str, **fields: object) -> None:
        """Write a line; whoever has something to say goes on, whether it can be written or not."""
        try:
            self._structlog().log(level, event, **fields)
        except (ImportError, OSError, ValueError):
            # No descriptor is left to import structlog with, the disk is full, or stderr is closed.
            with suppress(OSError, ValueError):
                print(level.name, event, fields, file=self._stream or sys.stderr, flush=True)

    def _structlog(self) -> Any:  # noqa: ANN401 - structlog types its loggers so
        if self._logger is None:
            import structlog  # noqa: PLC0415 - see the module's docstring

            stream = self._stream or sys.stderr
            processors: list[Processor] = [
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
            ]
            if self._style == "json":
                processors.append(structlog.processors.dict_tracebacks)
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
                wrapper_class=structlog.make_filtering_bound_logger(_EVERYTHING),
                cache_logger_on_first_use=True,
            )
        return self._logger


def traced(
    log: Log, dispatch: Callable[[RequestContext, bytearray, int, int, Pieces], int | Owed]
) -> Callable[[RequestContext, bytearray, int, int, Pieces], int | Owed]:
    """Return `dispatch` with a line for each request; chosen once, so that quiet costs nothing."""

    def dispatch_and_tell(
        context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | Owed:
        answer = dispatch(context, buffer, start, end, out)
        api_key = unpack_header(buffer, start)[0] >> 16
        log.debug(
            "request",
            node=context.node_id,
            listener=context.listener,
            client=context.client_host,
            client_id=context.client_id,
            api=TABLE[api_key].name if api_key in TABLE else "unknown",
            api_key=api_key,
            version=context.api_version,
            request_bytes=end - start,
            answer_bytes=answer if isinstance(answer, int) else "later",
        )
        return answer

    return dispatch_and_tell
