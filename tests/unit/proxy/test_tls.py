"""TLS of either side: who is shown what, and who trusts whom."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.proxy.tls import TlsError, towards_clients, towards_cluster
from tests.unit.frames import framed, header
from tests.unit.proxy.certificates import Certificates
from tests.unit.proxy.test_link import echo
from tests.unit.proxy.world import LOOPBACK, frame_from, scripted, staged

if TYPE_CHECKING:
    from pathlib import Path

GONE = (asyncio.IncompleteReadError, ConnectionError)
BEAT = framed(header(12, 4, correlation_id=3))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


async def answer_by(port: int, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        writer.write(BEAT)
        return await frame_from(reader)
    finally:
        writer.close()


async def test_tls_ends_at_the_proxy_and_begins_anew(certificates: Certificates) -> None:
    server = towards_clients(certificates.chain, certificates.key)
    trusting = towards_cluster(certificates.authority, None, None, is_checked=True)
    async with (
        scripted(echo, ssl=server) as upstream,
        staged(upstream, client_tls=server, upstream_tls=trusting) as stage,
    ):
        assert (await answer_by(stage.bootstrap.port, trusting))[4:8] == b"\0\0\0\3"
        (tap,) = stage.recorder.taps
    assert (bytes(tap.requests), tap.listener) == (BEAT, "SSL")


async def test_either_side_may_be_plain(certificates: Certificates) -> None:
    server = towards_clients(certificates.chain, certificates.key)
    trusting = towards_cluster(certificates.authority, None, None, is_checked=True)
    async with scripted(echo, ssl=server) as secret, scripted(echo) as plain:
        async with staged(secret, upstream_tls=trusting) as stage:
            assert (await answer_by(stage.bootstrap.port, None))[4:8] == b"\0\0\0\3"
        async with staged(plain, client_tls=server) as stage:
            assert (await answer_by(stage.bootstrap.port, trusting))[4:8] == b"\0\0\0\3"


async def test_a_cluster_that_is_not_trusted_is_not_talked_to(certificates: Certificates) -> None:
    server = towards_clients(certificates.chain, certificates.key)
    wary = towards_cluster(None, None, None, is_checked=True)
    careless = towards_cluster(None, None, None, is_checked=False)
    async with scripted(echo, ssl=server) as upstream:
        async with staged(upstream, upstream_tls=wary) as stage:
            with pytest.raises(GONE):
                await answer_by(stage.bootstrap.port, None)
            assert "its certificate is not trusted" in stage.log.getvalue()
        async with staged(upstream, upstream_tls=careless) as stage:
            assert (await answer_by(stage.bootstrap.port, None))[4:8] == b"\0\0\0\3"


async def test_a_cluster_without_tls_is_told_in_a_line() -> None:
    careless = towards_cluster(None, None, None, is_checked=False)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"this is no TLS at all")

    async with scripted(talk) as upstream, staged(upstream, upstream_tls=careless) as stage:
        with pytest.raises(GONE):
            await answer_by(stage.bootstrap.port, None)
        assert "TLS fails: " in stage.log.getvalue()


async def test_the_proxy_may_have_to_show_who_it_is(certificates: Certificates) -> None:
    server = towards_clients(certificates.chain, certificates.key)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(certificates.authority)
    shown = towards_cluster(
        certificates.authority, certificates.chain, certificates.key, is_checked=True
    )
    async with (
        scripted(echo, ssl=server) as upstream,
        staged(upstream, upstream_tls=shown) as stage,
    ):
        assert (await answer_by(stage.bootstrap.port, None))[4:8] == b"\0\0\0\3"


async def test_a_client_without_tls_harms_nobody(certificates: Certificates) -> None:
    server = towards_clients(certificates.chain, certificates.key)
    trusting = towards_cluster(certificates.authority, None, None, is_checked=True)
    async with scripted(echo) as upstream, staged(upstream, client_tls=server) as stage:
        with pytest.raises(GONE):
            await answer_by(stage.bootstrap.port, None)
        assert (await answer_by(stage.bootstrap.port, trusting))[4:8] == b"\0\0\0\3"


def test_files_that_are_none_are_told_in_a_line(certificates: Certificates, tmp_path: Path) -> None:
    missing, nonsense = str(tmp_path / "none.pem"), tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    with pytest.raises(TlsError, match="no such file"):
        towards_clients(missing, None)
    with pytest.raises(TlsError, match=str(nonsense)):
        towards_clients(str(nonsense), None)
    with pytest.raises(TlsError, match=r"no authorities can be read .* no such file"):
        towards_cluster(missing, None, None, is_checked=True)
    with pytest.raises(TlsError, match="the key has a password"):
        towards_clients(certificates.chain, certificates.locked_key)
