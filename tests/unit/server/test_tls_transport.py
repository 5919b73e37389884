"""TLS between a client's socket and its connection: handshakes, data, failures, limits."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import ssl
from collections import Counter
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.call import ConnectionContext
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.server import tls_transport
from kafkalite.server.broker import Broker
from kafkalite.server.connection import Connection
from kafkalite.server.link_rules import Direction, LinkRule
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
from kafkalite.server.tls_transport import TlsTransport
from kafkalite.wire.session import Session
from tests.unit.frames import request_frame
from tests.unit.security.issued_files import WEAK_CLIENTS, Files, authority, client, trusted_part
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VERSIONS_FRAME = request_frame(ApiVersionsRequest(), 0)
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


class SecuredBroker:
    """A broker with an SSL and a PLAINTEXT listener, and the files of its certificates."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.files = Files(directory)
        self._log_output = io.StringIO()
        self.broker = Broker(
            Settings(
                listen=("SSL://127.0.0.1:0", "PLAINTEXT://127.0.0.1:0"),
                config=self.files.config(**config),
                topics={"orders": 1},
            ),
            Log(Level.INFO, "json", self._log_output),
        )

    def address(self, listener: str = "SSL") -> tuple[str, int]:
        host, _, port = self.broker.bootstrap_by_listener()[listener].partition(":")
        return host, int(port)

    async def connect(self, context: ssl.SSLContext | None = None) -> Client:
        """Connect with TLS."""
        host, port = self.address()
        context = context or self.files.client_context()
        return Client(*await asyncio.open_connection(host, port, ssl=context))

    async def connect_socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect without TLS to the listener with TLS."""
        return await asyncio.open_connection(*self.address())

    @property
    def reasons(self) -> list[str]:
        """The reasons in the log why connections were closed."""
        lines = map(json.loads, self._log_output.getvalue().splitlines())
        return [line["reason"] for line in lines if "reason" in line]

    @property
    def connections(self) -> list[Any]:
        return list(self.broker.nodes.connections())


class ClientHandshake:
    """A client's side of a handshake, which sends alerts, unlike asyncio."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def client_hello(self) -> bytes:
        """Return the first bytes of the handshake."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    async def perform(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Return after the handshake; raises ssl.SSLError after its alert was sent."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                writer.write(self._outgoing.read())
                self._incoming.write(await reader.read(65536))
            else:
                return
            finally:
                writer.write(self._outgoing.read())


@asynccontextmanager
async def secured_broker(directory: Path, **config: str) -> AsyncIterator[SecuredBroker]:
    broker = SecuredBroker(directory, **config)
    await broker.broker.start()
    try:
        yield broker
    finally:
        await broker.broker.stop(grace_s=0)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes until the other side closes the connection."""
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""


async def test_requests_are_served(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        connected = await broker.connect()
        for _ in range(3):
            answer = await connected.ask(MetadataRequest(topics=None), METADATA_VERSION)
            assert [topic.name for topic in answer.topics] == ["orders"]
            (node,) = answer.brokers
            assert (node.host, node.port) == broker.address()
        await connected.close()
    assert broker.reasons == []


@pytest.mark.parametrize("direction", Direction)
async def test_a_handshake_completes_over_a_cut_link(tmp_path: Path, direction: Direction) -> None:
    async with secured_broker(tmp_path) as broker:
        links = broker.broker.nodes.links
        links.add(LinkRule(cut=True, direction=direction))
        connected = await broker.connect()
        links.heal_all()
        answer = await connected.ask(MetadataRequest(topics=None), METADATA_VERSION)
        assert [topic.name for topic in answer.topics] == ["orders"]
        await connected.close()


async def test_pipelined_and_split_requests_are_served(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        context = broker.files.client_context()
        reader, writer = await asyncio.open_connection(*broker.address(), ssl=context)
        content = VERSIONS_FRAME * 500
        middle = len(content) // 2 + 3
        writer.write(content[:middle])
        await writer.drain()
        writer.write(content[middle:])
        for _ in range(500):
            length = int.from_bytes(await reader.readexactly(4))
            assert len(await reader.readexactly(length)) == length
        writer.close()
        await writer.wait_closed()


async def test_the_certificate_is_the_principal(tmp_path: Path) -> None:
    async with secured_broker(tmp_path, ssl_client_auth="requested") as broker:
        connected = await broker.connect(broker.files.client_context(client()))
        await connected.ask(ApiVersionsRequest(), 0)
        (connection,) = broker.connections
        assert connection._call_context.principal == "User:CN=alice"
        await connected.close()
        anonymous = await broker.connect()
        await anonymous.ask(ApiVersionsRequest(), 0)
        assert "User:ANONYMOUS" in {each._call_context.principal for each in broker.connections}
        await anonymous.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (VERSIONS_FRAME, "the listener requires TLS, but the client seems to speak plain text"),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            "the listener requires TLS, but the client seems to speak HTTP",
        ),
        (b"\x16" + b"\xff" * 100, "TLS failed: wrong version number"),
        (CLIENT_HELLO + b"\xff" * 600, "TLS failed: "),
    ],
)
async def test_garbage_closes_the_connection(tmp_path: Path, sent: bytes, reason: str) -> None:
    async with secured_broker(tmp_path) as broker:
        other = await broker.connect()
        reader, writer = await broker.connect_socket()
        writer.write(sent)
        await until_closed(reader)
        writer.close()
        (logged,) = broker.reasons
        assert logged.startswith(reason)
        await other.ask(ApiVersionsRequest(), 0)
        await other.close()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (VERSIONS_FRAME, b"\x15\x03\x03\x00\x02\x02\x50"),  # fatal: internal error
        (b"\x15\x03\x03\x00\x02\x02\x28", b""),
    ],
)
async def test_plain_text_is_answered_by_an_alert(
    tmp_path: Path, sent: bytes, answer: bytes
) -> None:
    async with secured_broker(tmp_path) as broker:
        reader, writer = await broker.connect_socket()
        writer.write(sent)
        assert await reader.read() == answer
        writer.close()


async def test_tls_on_a_plain_listener_closes_the_connection(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        context = broker.files.client_context()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(*broker.address("PLAINTEXT"), ssl=context)
    (reason,) = broker.reasons
    assert reason.endswith("the client seems to speak TLS")


async def test_a_client_that_trusts_another_authority_is_logged(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        trusted = broker.files.write("other.pem", authority("other").pem)
        handshake = ClientHandshake(broker.files.client_context(trusted=trusted))
        reader, writer = await broker.connect_socket()
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake.perform(reader, writer)
        await until_closed(reader)
        writer.close()
    (reason,) = broker.reasons
    assert reason == "the client does not trust the certificate of this listener"


@pytest.mark.parametrize(
    ("is_expired", "reason"),
    [(True, "certificate has expired"), (None, "the client has no certificate")],
)
async def test_client_certificates_are_checked(
    tmp_path: Path, *, is_expired: bool | None, reason: str
) -> None:
    async with secured_broker(tmp_path, ssl_client_auth="required") as broker:
        issued = None if is_expired is None else client(is_expired=is_expired)
        host, port = broker.address()
        context = broker.files.client_context(issued)
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        with pytest.raises(ssl.SSLError):
            await reader.read(1)
        writer.close()
    (logged,) = broker.reasons
    assert reason in logged


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_weak_certificates_of_clients_are_refused_as_in_java(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    store = tmp_path / "trusted.pem"
    store.write_bytes(WEAK_CLIENTS["authority"] + trusted_part(WEAK_CLIENTS["trusted-768"]))
    config = {"ssl_client_auth": "required", "ssl_truststore_location": str(store)}
    accepted = []
    async with secured_broker(tmp_path, **config) as broker:
        host, port = broker.address()
        for name in ("rsa-1024-sha1", "trusted-768", "rsa-1023", "md5"):
            context = broker.files.client_context(None)
            context.minimum_version = context.maximum_version = version
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            (tmp_path / "weak.pem").write_bytes(WEAK_CLIENTS[name])
            context.load_cert_chain(tmp_path / "weak.pem")
            with suppress(ssl.SSLError):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                writer.write(request_frame(ApiVersionsRequest(), 0))
                if await reader.read(1):
                    accepted.append(name)
                writer.close()
    assert accepted == ["rsa-1024-sha1", "trusted-768"]
    assert broker.reasons == [
        "the certificate of the client is not accepted: its RSA key has 1023 bits, less than 1024",
        "the certificate of the client is not accepted: it is signed with MD5",
    ]


async def test_a_principal_without_a_rule_is_refused(tmp_path: Path) -> None:
    rules = "RULE:O=(.*)/$1/"
    config = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": rules}
    async with secured_broker(tmp_path, **config) as broker:
        host, port = broker.address()
        context = broker.files.client_context(client())
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        assert await until_closed(reader) == b""
        writer.close()
    assert broker.reasons == ["no rule of ssl.principal.mapping.rules applies to CN=alice"]


async def test_a_slow_handshake_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with secured_broker(tmp_path) as broker:
        established = await broker.connect()
        monkeypatch.setattr(tls_transport, "HANDSHAKE_TIMEOUT_S", 0.05)
        reader, writer = await broker.connect_socket()
        writer.write(CLIENT_HELLO)
        assert await until_closed(reader) == b""
        writer.close()
        assert broker.reasons == ["the TLS handshake takes too long"]
        await established.ask(ApiVersionsRequest(), 0)
        await established.close()


async def test_a_handshake_has_a_maximum_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secured_broker(tmp_path) as broker:
        monkeypatch.setattr(tls_transport, "MAX_HANDSHAKE_BYTES", 100)
        reader, writer = await broker.connect_socket()
        writer.write(CLIENT_HELLO + b"\0" * 100)
        await until_closed(reader)
        writer.close()
    assert broker.reasons == ["the TLS handshake is above 100 bytes"]


async def test_a_client_that_disconnects_during_the_handshake_is_logged(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        silent_reader, silent_writer = await broker.connect_socket()
        silent_writer.write_eof()
        assert await until_closed(silent_reader) == b""
        assert broker.reasons == []
        reader, writer = await broker.connect_socket()
        writer.write(CLIENT_HELLO)
        writer.write_eof()
        await until_closed(reader)
        silent_writer.close()
        writer.close()
    assert broker.reasons == ["the client disconnects during the TLS handshake"]


def retained_objects() -> Counter[str]:
    """Return the numbers of connections, and of TLS servers of OpenSSL, in this process."""
    # A dead weak reference of another library raises an error if isinstance reads its class.
    kinds = (ssl.SSLObject, TlsTransport, Connection, ConnectionContext, Session)
    found = [each for each in gc.get_objects() if issubclass(type(each), kinds)]
    return Counter(type(each).__name__ for each in found if getattr(each, "server_side", True))


@pytest.mark.parametrize("is_complete", [False, True])
async def test_the_end_of_a_connection_frees_its_memory(
    tmp_path: Path, *, is_complete: bool
) -> None:
    async with secured_broker(tmp_path) as broker:
        handshake = ClientHandshake(broker.files.client_context())
        gc.collect()
        before = retained_objects()
        gc.disable()
        try:
            reader, writer = await broker.connect_socket()
            if is_complete:
                await handshake.perform(reader, writer)
            else:
                writer.write(handshake.client_hello())
            await reader.read(1)
            assert retained_objects()["SSLObject"] == before["SSLObject"] + 1
            writer.close()
            for server in broker.broker.nodes._servers:
                await server.admission.is_empty.wait()
            await asyncio.sleep(0)  # the event loop still refers to what it has just called
            assert retained_objects() == before
        finally:
            gc.enable()


async def test_handshakes_count_as_connections(tmp_path: Path) -> None:
    async with secured_broker(tmp_path, max_connections_per_ip="2") as broker:
        waiting = [await broker.connect_socket() for _ in range(2)]
        reader, writer = await broker.connect_socket()
        assert await until_closed(reader) == b""
        for _, each in (*waiting, (reader, writer)):
            each.close()
    assert broker.reasons == ["more than max.connections.per.ip=2 from one address"]


async def test_mutated_handshakes_harm_no_other_client(tmp_path: Path) -> None:
    random = Random(17)  # noqa: S311 - test data
    async with secured_broker(tmp_path, ssl_client_auth="requested") as broker:
        other = await broker.connect()
        for _ in range(100):
            hello = bytearray(ClientHandshake(broker.files.client_context()).client_hello())
            for _ in range(random.randint(1, 8)):
                hello[random.randrange(len(hello))] = random.randrange(256)
            reader, writer = await broker.connect_socket()
            writer.write(hello[: random.randint(1, len(hello))])
            writer.write_eof()
            await until_closed(reader)
            writer.close()
        await other.ask(ApiVersionsRequest(), 0)
        assert len(broker.connections) == 1
        await other.close()


async def test_brokers_on_other_threads_have_their_own_buffer(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as one, secured_broker(tmp_path) as other:
        buffers = []
        for broker in (one, other):
            for _ in range(2):
                connected = await broker.connect()
                await connected.ask(ApiVersionsRequest(), 0)
                buffers.append(broker.connections[0].transport.get_buffer(-1))
                await connected.close()
        assert buffers[0] is buffers[1]
        assert buffers[2] is buffers[3]
        assert buffers[0] is not buffers[2]


async def test_damaged_records_close_the_connection(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        reader, writer = await broker.connect_socket()
        await ClientHandshake(broker.files.client_context()).perform(reader, writer)
        writer.write(b"\x17\x03\x03\x00\x20" + b"\0" * 32)
        await until_closed(reader)
        writer.close()
    (reason,) = broker.reasons
    # The second text is that of OpenSSL 3.6.
    assert reason in {
        "TLS failed: decryption failed or bad record mac",
        "TLS failed: record layer failure",
    }


async def test_the_end_of_the_stream_is_announced(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        connected = await broker.connect()
        await connected.ask(ApiVersionsRequest(), 0)
        (connection,) = broker.connections
        connection.close()
        assert await connected.is_closed()
        await connected.close()


async def test_changed_files_apply_to_new_connections(tmp_path: Path) -> None:
    async with secured_broker(tmp_path) as broker:
        before = await broker.connect()
        other = authority("other")
        issued = other.issue("server", ("127.0.0.1",))
        broker.files.write("server.pem", other.chain_pem(issued) + b"# of another length\n")
        trusted = broker.files.write("other.pem", other.pem)
        after = await broker.connect(broker.files.client_context(trusted=trusted))
        for each in (before, after):
            await each.ask(ApiVersionsRequest(), 0)
            await each.close()


async def test_a_broker_without_a_certificate_does_not_start() -> None:
    broker = Broker(Settings(listen=("SSL://127.0.0.1:0",)), Log(Level.ERROR))
    with pytest.raises(SettingsError, match="needs a certificate"):
        await broker.start()
