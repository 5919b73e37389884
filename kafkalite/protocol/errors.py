"""The kinds of error a request can meet.

`KafkaError` is told to the client in its own API's words. `ProtocolViolation` closes the
connection. Anything else is a fault of ours: logged whole, answered UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.protocol.error_codes import ErrorCode


class KafkaError(Exception):
    """A refusal with a Kafka error code, and a message where the API can carry one.

    `facts` say why in words a program reads: the rule, the epochs, the member; names → what JSON
    can hold. They never go to the client, only to whoever asks for an explanation.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.facts = facts


class ProtocolViolation(ValueError):  # noqa: N818 - Kafka's word is not "error"
    """Bytes that break the protocol; `reason` is one line for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
