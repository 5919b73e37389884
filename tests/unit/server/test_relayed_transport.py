"""RelayedTransport: facts about a client, and everything else of the socket."""

from __future__ import annotations

import asyncio
import socket

from kafkalite.server.relayed_transport import RelayedTransport


class Protocol(asyncio.Protocol):
    """Stores what arrives."""

    def __init__(self) -> None:
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        self.received += data


async def test_transport_has_the_address_of_the_client() -> None:
    own, other = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_accepted_socket(Protocol, own)
    relayed = RelayedTransport(transport, {"peername": ("192.0.2.1", 5)})
    assert relayed.get_extra_info("peername") == ("192.0.2.1", 5)
    assert relayed.get_extra_info("socket").fileno() == own.fileno()
    assert relayed.get_extra_info("nothing", 7) == 7
    relayed.write(b"a")
    relayed.writelines([b"b", b"c"])
    assert await asyncio.to_thread(other.recv, 3, socket.MSG_WAITALL) == b"abc"
    assert relayed.get_protocol() is protocol
    relayed.set_write_buffer_limits(high=10)
    assert relayed.get_write_buffer_size() == 0
    relayed.pause_reading()
    assert not relayed.is_reading()
    replaced = Protocol()
    relayed.set_protocol(replaced)
    other.send(b"x")
    relayed.resume_reading()
    async with asyncio.timeout(10):
        while not replaced.received:  # noqa: ASYNC110 - the socket changes it
            await asyncio.sleep(0)
    assert not relayed.is_closing()
    relayed.close()
    assert relayed.is_closing()
    relayed.abort()
    await asyncio.sleep(0)
    other.close()
