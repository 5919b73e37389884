"""Responder: answers requests as bytes, before they are decoded, instead of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.wire.session import PendingAnswer, Pieces


class Responder(Protocol):
    """Answers requests that routes cannot serve, for example of unknown APIs or versions.

    See `Gateway.install_responder`. While one is installed, every request is served in a worker.
    """

    def respond(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | PendingAnswer | None:
        """Answer the request between `start` and `end` as `wire.session.Serve` does.

        Returns None, with nothing added to `out`, to leave the request to the broker. Raises
        ProtocolViolation to close the connection.
        """

    def close(self) -> None:
        """Release resources: the responder was removed, or the last client has disconnected."""
