"""Errors of requests: KafkaError and ProtocolViolation.

A `KafkaError` is returned to the client in a response. `ProtocolViolation` closes the
connection. Any other exception is a bug: it is logged with its traceback and answered
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.protocol.error_codes import ErrorCode


class KafkaError(Exception):
    """A refusal with a Kafka error code, and a message if the API has a field for it.

    `facts` are the reason as data: names, such as "rule" or "member", and values that JSON can
    represent. `explanation` is the full reason as text; by default it is the message.
    Neither is sent to the client. Both are stored for `kafkalite explain`.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        facts: Mapping[str, object] | None = None,
        explanation: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.facts = facts
        self.explanation = message if explanation is None else explanation

    def __str__(self) -> str:
        return self.code.name if self.message is None else f"{self.code.name}: {self.message}"

    def without_traceback(self) -> Self:
        """Return this error without its traceback and context, so that it can be stored.

        The tracebacks of both refer to the frame that stores the error. This cycle would keep
        objects alive.
        """
        self.__context__ = None
        return self.with_traceback(None)


class ProtocolViolation(ValueError):  # noqa: N818 - "violation" says that it is an error
    """Bytes that violate the protocol; `reason` is one line for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_bug(outcome: object) -> TypeGuard[Exception]:
    """Return whether the outcome of a request is an exception that only a bug raises."""
    return isinstance(outcome, Exception) and not isinstance(
        outcome, KafkaError | ProtocolViolation
    )
