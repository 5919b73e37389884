"""TLS between clients and the proxy, and between the proxy and the cluster."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.proxy.tls import TlsError, client_context, server_context
from tests.unit.frames import framed, header
from tests.unit.lab.proxy.certificates import Certificates
from tests.unit.lab.proxy.running_proxies import (
    LOOPBACK,
    read_frame,
    running_proxy,
    scripted_cluster,
)
from tests.unit.lab.proxy.test_proxied_connection import echo

if TYPE_CHECKING:
    from pathlib import Path

DISCONNECTED = (asyncio.IncompleteReadError, ConnectionError)
HEARTBEAT_FRAME = framed(header(12, 4, correlation_id=3))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


async def response_at(port: int, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        writer.write(HEARTBEAT_FRAME)
        return await read_frame(reader)
    finally:
        writer.close()


async def test_tls_is_terminated_and_started_again(certificates: Certificates) -> None:
    server = server_context(certificates.chain, certificates.key)
    trusted = client_context(certificates.authority, None, None, verify_server=True)
    async with (
        scripted_cluster(echo, ssl=server) as upstream,
        running_proxy(upstream, client_tls=server, upstream_tls=trusted) as proxy,
    ):
        assert (await response_at(proxy.bootstrap.port, trusted))[4:8] == b"\0\0\0\3"
        (tap,) = proxy.recorder.taps
    assert (bytes(tap.requests), tap.listener) == (HEARTBEAT_FRAME, "SSL")


async def test_each_side_can_be_without_tls(certificates: Certificates) -> None:
    server = server_context(certificates.chain, certificates.key)
    trusted = client_context(certificates.authority, None, None, verify_server=True)
    async with scripted_cluster(echo, ssl=server) as encrypted, scripted_cluster(echo) as plain:
        async with running_proxy(encrypted, upstream_tls=trusted) as proxy:
            assert (await response_at(proxy.bootstrap.port, None))[4:8] == b"\0\0\0\3"
        async with running_proxy(plain, client_tls=server) as proxy:
            assert (await response_at(proxy.bootstrap.port, trusted))[4:8] == b"\0\0\0\3"


async def test_untrusted_cluster_is_refused(certificates: Certificates) -> None:
    server = server_context(certificates.chain, certificates.key)
    checked = client_context(None, None, None, verify_server=True)
    unchecked = client_context(None, None, None, verify_server=False)
    async with scripted_cluster(echo, ssl=server) as upstream:
        async with running_proxy(upstream, upstream_tls=checked) as proxy:
            with pytest.raises(DISCONNECTED):
                await response_at(proxy.bootstrap.port, None)
            assert "its certificate is not trusted" in proxy.log.getvalue()
        async with running_proxy(upstream, upstream_tls=unchecked) as proxy:
            assert (await response_at(proxy.bootstrap.port, None))[4:8] == b"\0\0\0\3"


async def test_cluster_without_tls_is_logged() -> None:
    unchecked = client_context(None, None, None, verify_server=False)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"this is no TLS at all")

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream, upstream_tls=unchecked) as proxy,
    ):
        with pytest.raises(DISCONNECTED):
            await response_at(proxy.bootstrap.port, None)
        assert "TLS fails: " in proxy.log.getvalue()


async def test_proxy_presents_a_client_certificate(certificates: Certificates) -> None:
    server = server_context(certificates.chain, certificates.key)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(certificates.authority)
    presenting = client_context(
        certificates.authority, certificates.chain, certificates.key, verify_server=True
    )
    async with (
        scripted_cluster(echo, ssl=server) as upstream,
        running_proxy(upstream, upstream_tls=presenting) as proxy,
    ):
        assert (await response_at(proxy.bootstrap.port, None))[4:8] == b"\0\0\0\3"


async def test_client_without_tls_affects_no_other(certificates: Certificates) -> None:
    server = server_context(certificates.chain, certificates.key)
    trusted = client_context(certificates.authority, None, None, verify_server=True)
    async with (
        scripted_cluster(echo) as upstream,
        running_proxy(upstream, client_tls=server) as proxy,
    ):
        with pytest.raises(DISCONNECTED):
            await response_at(proxy.bootstrap.port, None)
        assert (await response_at(proxy.bootstrap.port, trusted))[4:8] == b"\0\0\0\3"


def test_unusable_files_are_reported(certificates: Certificates, tmp_path: Path) -> None:
    missing, nonsense = str(tmp_path / "none.pem"), tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    with pytest.raises(TlsError, match="no such file"):
        server_context(missing, None)
    with pytest.raises(TlsError, match=str(nonsense)):
        server_context(str(nonsense), None)
    with pytest.raises(TlsError, match=r"cannot read CA certificates .* no such file"):
        client_context(missing, None, None, verify_server=True)
    with pytest.raises(TlsError, match="the key has a password"):
        server_context(certificates.chain, certificates.locked_key)
