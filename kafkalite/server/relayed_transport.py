"""RelayedTransport: the transport of a client whose bytes another process passes on.

The client of a relayed listener connects to that process, which opens a connection for it. What the
broker knows of the client, such as its address in ACLs, quotas and the log, is that of the client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class RelayedTransport(asyncio.Transport):
    """A transport with other facts about its socket, such as `peername`."""

    def __init__(self, transport: asyncio.Transport, facts: Mapping[str, object]) -> None:
        """`facts` take precedence over those of `transport`."""
        super().__init__()
        self._transport = transport
        self._facts = facts
        # Without a method of this class, a write costs no further call.
        self.write = transport.write  # type: ignore[method-assign]
        self.writelines = transport.writelines  # type: ignore[method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio
        """Return a fact about the client, or about the socket."""
        if name in self._facts:
            return self._facts[name]
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closed or about to be closed."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close when all bytes are sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close immediately."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Receive nothing more."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Whether bytes are received."""
        return self._transport.is_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass received bytes to another protocol from now on."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that gets the received bytes."""
        return self._transport.get_protocol()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which the socket pauses and resumes writing."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that have not been sent."""
        return self._transport.get_write_buffer_size()
