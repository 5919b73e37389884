"""Responder: answers requests in place of the broker, before they are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.wire.session import Pieces


class ResponderAnswer(NamedTuple):
    """The answer to a request, and a function that encodes its response."""

    request: Any
    """The decoded request."""
    response: Any
    """The response in the version of the request, or a Waiting for it; None for no answer."""
    encode: Callable[[Any, Pieces], int]
    """(response, out): add the frame of the response to `out` and return its size."""


class Responder(Protocol):
    """Answers requests that routes cannot serve, for example of unknown APIs or versions.

    See `Gateway.install_responder`. While one is installed, every request is served in a worker.
    """

    def respond(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int
    ) -> ResponderAnswer | None:
        """Return the answer to the request between `start` and `end`.

        Returns None to leave the request to the broker. Raises ProtocolViolation to close the
        connection.
        """

    def close(self) -> None:
        """Release resources: the responder was removed, or the last client has disconnected."""
