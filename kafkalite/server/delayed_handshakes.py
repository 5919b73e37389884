"""DelayedTlsTransport: TLS whose handshakes are answered as late as those of a real Kafka.

A client may read an answer that comes at once in the call that sends its first message. librdkafka
then reports a certificate that it does not trust as an error of the connection (`_TRANSPORT`), and
otherwise as one of TLS (`_SSL`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.security.tls import starts_handshake
from kafkalite.server.tls_transport import MAX_HANDSHAKE_BYTES, BufferedProtocol, TlsTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.security.tls import TlsServer
    from kafkalite.server.tls_transport import TlsClient


class DelayedTlsTransport(TlsTransport):
    """A transport that receives the first bytes of a handshake after a delay.

    Bytes that do not begin a handshake have none: Java answers them at once.
    """

    __slots__ = ("_delay_s", "_waiting")

    def __init__(
        self,
        tls_server: TlsServer,
        receive_buffer: memoryview,
        connection: TlsClient,
        protocol: BufferedProtocol,
        delay_s: Callable[[], float],
    ) -> None:
        """`delay_s` returns the delay of one handshake, in seconds."""
        super().__init__(tls_server, receive_buffer, connection, protocol)
        self._delay_s: Callable[[], float] | None = delay_s
        """None after the first bytes."""
        self._waiting: bytearray | None = None
        """What the client has sent during the delay; None before and after it."""

    def buffer_updated(self, nbytes: int) -> None:
        """Store the bytes during the delay; decrypt them afterwards."""
        received = self._receive_buffer[:nbytes]
        if self._delay_s is not None:
            delay_s, self._delay_s = self._delay_s, None
            if starts_handshake(received):
                self._waiting = bytearray()
                asyncio.get_running_loop().call_later(delay_s(), self._end_delay)
        if self._waiting is None:
            super().buffer_updated(nbytes)
            return
        self._waiting += received
        if len(self._waiting) > MAX_HANDSHAKE_BYTES:
            self._end_delay()

    def _end_delay(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        size = len(self._receive_buffer)
        for start in range(0, len(waiting), size):
            piece = waiting[start : start + size]
            self._receive_buffer[: len(piece)] = piece
            super().buffer_updated(len(piece))
