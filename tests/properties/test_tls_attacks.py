"""Random and mutated TLS connections: no request of a client without a certificate is answered."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.effort import examples
from tests.unit.frames import request_frame
from tests.unit.security.issued_files import Files, authority, client
from tests.unit.server.test_tls_transport import secured_broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.unit.server.test_tls_transport import SecuredBroker

METADATA = request_frame(MetadataRequest(topics=None), 9)
TOPIC = b"orders"
"""A topic that the answer to METADATA names."""
TIMEOUT_S = 60.0


class TlsClient:
    """A client's side of TLS on a socket; its bytes can be changed before they are sent."""

    def __init__(self, broker: SecuredBroker, context: ssl.SSLContext) -> None:
        self._broker = broker
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def connect(self, listener: str = "SSL") -> None:
        """Open the socket."""
        self._reader, self._writer = await asyncio.open_connection(*self._broker.address(listener))

    def hello(self) -> bytes:
        """Return the first bytes of the handshake."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    async def answer_hello(self, hello: bytes) -> bytes:
        """Send the first bytes, and return the client's next ones."""
        self._writer.write(hello)
        while not (flight := self._outgoing.read()):
            self._incoming.write(await self._reader.read(65536))
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
        return flight

    async def complete_handshake(self) -> None:
        """Perform the handshake, as far as the client can."""
        self._writer.write(await self.answer_hello(self.hello()))
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._incoming.write(await self._reader.read(65536))
            else:
                return

    def encrypted(self, data: bytes) -> bytes:
        """Return data as records of TLS."""
        self._tls.write(data)
        return self._outgoing.read()

    async def finish(self, data: bytes) -> bytes:
        """Send the last bytes, and return all answers, with and without decryption."""
        with suppress(OSError):
            self._writer.write(data)
            self._writer.write_eof()
        received = b""
        with suppress(OSError):
            while chunk := await self._reader.read(65536):
                received += chunk
        self._writer.close()
        self._incoming.write(received)
        with suppress(ssl.SSLError, ValueError):
            received += self._tls.read()
        return received


class TlsAttacker:
    """A client without a valid certificate, which can change the bytes of one that has it."""

    def __init__(self, broker: SecuredBroker, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible
        self._broker = broker
        files = broker.files
        directory = files.directory / "other"
        directory.mkdir()
        other = authority("other").issue("alice")
        other_file = Files(directory).write("alice.pem", authority("other").chain_pem(other))
        self._valid = files.client_context(client())
        foreign = files.client_context()
        foreign.load_cert_chain(other_file)
        self._invalid = (
            files.client_context(),
            files.client_context(client(is_expired=True)),
            foreign,
        )
        self.plans: tuple[Callable[[], Awaitable[bytes]], ...] = (
            self.send_plain_text,
            self.use_tls_on_a_plain_listener,
            self.mutate_the_hello,
            self.mutate_the_second_flight,
            self.use_an_invalid_certificate,
            self.change_a_record,
        )

    def mutated(self, data: bytes) -> bytes:
        """Return bytes with random changes, or without their end."""
        changed = bytearray(data)
        for _ in range(self.random.randint(1, 8)):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed[: self.random.randint(1, len(changed))])

    async def _connect(self, context: ssl.SSLContext, listener: str = "SSL") -> TlsClient:
        versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
        context.maximum_version = self.random.choice(versions)
        connected = TlsClient(self._broker, context)
        await connected.connect(listener)
        return connected

    async def send_plain_text(self) -> bytes:
        connected = await self._connect(self._valid)
        noise = self.random.randbytes(self.random.randrange(100))
        return await connected.finish(self.random.choice((METADATA, noise, noise + METADATA)))

    async def use_tls_on_a_plain_listener(self) -> bytes:
        connected = await self._connect(self._valid, "PLAINTEXT")
        hello = connected.hello()
        return await connected.finish(hello if self.random.randrange(2) else hello + METADATA)

    async def mutate_the_hello(self) -> bytes:
        connected = await self._connect(self._valid)
        return await connected.finish(self.mutated(connected.hello()) + METADATA)

    async def mutate_the_second_flight(self) -> bytes:
        connected = await self._connect(self._valid)
        flight = await connected.answer_hello(connected.hello())
        sent = flight if self.random.randrange(2) else self.mutated(flight)
        return await connected.finish(sent + METADATA)

    async def use_an_invalid_certificate(self) -> bytes:
        connected = await self._connect(self.random.choice(self._invalid))
        try:
            await connected.complete_handshake()
        except ssl.SSLError:  # an alert, in TLS 1.2
            return await connected.finish(METADATA)
        return await connected.finish(connected.encrypted(METADATA))

    async def change_a_record(self) -> bytes:
        connected = await self._connect(self._valid)
        await connected.complete_handshake()
        record = bytearray(connected.encrypted(METADATA))
        record[self.random.randrange(5, len(record))] ^= 1 << self.random.randrange(8)
        return await connected.finish(bytes(record))


async def attack(directory: Path, connections: int, seed: int) -> None:
    """Make connections of which none must be served; afterwards a client is served."""
    async with secured_broker(directory, ssl_client_auth="required") as broker:
        attacker = TlsAttacker(broker, seed)
        for _ in range(connections):
            plan = attacker.random.choice(attacker.plans)
            async with asyncio.timeout(TIMEOUT_S):
                assert TOPIC not in await plan(), plan.__name__
        connected = TlsClient(broker, broker.files.client_context(client()))
        await connected.connect()
        await connected.complete_handshake()
        assert TOPIC in await connected.finish(connected.encrypted(METADATA))
        assert broker.connections == []


@pytest.mark.parametrize("seed", range(2))
async def test_no_mutated_connection_is_served(tmp_path: Path, seed: int) -> None:
    await attack(tmp_path, examples(100), seed)


@pytest.mark.endurance
@pytest.mark.parametrize("seed", range(100, 104))
async def test_no_connection_of_many_is_served(tmp_path: Path, seed: int) -> None:
    await attack(tmp_path, examples(1_250), seed)
