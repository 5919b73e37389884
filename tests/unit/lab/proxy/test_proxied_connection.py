"""Proxied connections: bytes are forwarded both ways, and a faulty peer affects no other."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.proxy import proxied_connection
from kafkalite.lab.proxy.address_rewriting import Node, NodeAddress
from kafkalite.lab.proxy.proxied_connection import MAX_PENDING_REQUESTS, UNKNOWN_NODE
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.server.addresses import Address
from tests.oracle.target import free_port
from tests.unit.frames import framed, header, request_frame, response_frame
from tests.unit.lab.proxy.running_proxies import (
    LOOPBACK,
    TIMEOUT_S,
    RunningProxy,
    parse_response_frame,
    read_frame,
    running_proxy,
    scripted_cluster,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


HEARTBEAT = 12


def heartbeat(correlation_id: int, size: int = 0) -> bytes:
    return framed(header(HEARTBEAT, 4, correlation_id=correlation_id) + bytes(size))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to every request with its correlation id and its body."""
    while True:
        frame = await read_frame(reader)
        writer.write(framed(frame[8:]))
        await writer.drain()


@asynccontextmanager
async def connected(
    proxy: RunningProxy, port: int = 0, *, to: int = 0
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect a client to the proxy, optionally from a given port."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.setblocking(False)
    client.bind((LOOPBACK, port))
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (LOOPBACK, to or proxy.bootstrap.port))
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_bytes_are_forwarded_both_ways_and_recorded() -> None:
    sent = b"".join(heartbeat(number, number * 1000) for number in range(100))
    async with (
        scripted_cluster(echo) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(sent)
        answers = [await read_frame(reader) for _ in range(100)]
        client = writer.get_extra_info("sockname")
        writer.close()
        await asyncio.wait_for(proxy.proxy.wait_closed(), TIMEOUT_S)
        (tap,) = proxy.recorder.taps
    assert [int.from_bytes(each[4:8]) for each in answers] == list(range(100))
    assert bytes(tap.requests) == sent
    assert bytes(tap.responses) == b"".join(answers)
    assert (tap.client, tap.broker) == (client, (upstream.host, upstream.port))
    assert (tap.node_id, tap.listener, tap.is_closed) == (UNKNOWN_NODE, "PLAINTEXT", True)
    totals = proxy.proxy.totals
    assert (totals.connections, totals.requests) == (1, 100)
    assert totals.from_clients_bytes == len(sent)
    assert totals.to_clients_bytes == len(tap.responses)


async def test_lost_recording_resumes_when_no_request_is_pending() -> None:
    async with (
        scripted_cluster(echo) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(heartbeat(1))
        await read_frame(reader)
        (tap,) = proxy.recorder.taps
        tap.is_lost = True
        writer.write(heartbeat(2) + heartbeat(3)[:7])
        await read_frame(reader)
        assert not tap.is_lost
        assert bytes(tap.requests) == heartbeat(2) + heartbeat(3)[:7]
        tap.is_lost = True
        writer.write(heartbeat(3)[7:])
        await read_frame(reader)
        assert tap.is_lost, "its request was incomplete"
        writer.write(heartbeat(4))
        answer = await read_frame(reader)
        assert (bytes(tap.requests), bytes(tap.responses)) == (heartbeat(4), answer)


async def test_response_is_recorded_before_rewriting() -> None:
    response = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=5, host="inside", port=9092)]
    )
    answer = response_frame(response, 12)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(answer)
        await reader.read()

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(request_frame(MetadataRequest(topics=None), 12))
        broker = parse_response_frame(await read_frame(reader), 3, 12).brokers[0]
        (tap,) = proxy.recorder.taps
    assert bytes(tap.responses) == answer
    assert (broker.node_id, broker.host) == (5, LOOPBACK)
    assert broker.port not in (9092, proxy.bootstrap.port)


async def test_unreachable_upstream_is_logged() -> None:
    unreachable = Address(LOOPBACK, free_port())
    async with running_proxy(unreachable, unreachable) as proxy, connected(proxy) as (reader, _):
        assert await reader.read() == b""
        assert proxy.recorder.taps == []
        log_text = proxy.log.getvalue()
    assert f"no broker answers at {unreachable}: connection refused; {unreachable}: " in log_text


async def test_unknown_host_is_logged() -> None:
    async with (
        running_proxy(Address("no.such.host.invalid", 1)) as proxy,
        connected(proxy) as (reader, _),
    ):
        assert await reader.read() == b""
        assert "no broker answers at no.such.host.invalid:1: " in proxy.log.getvalue()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (Address("a\0b", 9092), "the host name is invalid"),
        (Address("long" * 100, 9092), "the host name is invalid"),
        (Address(LOOPBACK, -1), "invalid address"),
        (Address(LOOPBACK, 2**16 + 9092), "invalid address"),
    ],
)
async def test_invalid_address_is_logged(address: Address, reason: str) -> None:
    """A cluster may return any address for its nodes."""
    async with running_proxy(address) as proxy, connected(proxy) as (reader, _):
        assert await reader.read() == b""
        (line,) = map(json.loads, proxy.log.getvalue().splitlines())
    assert line["level"] == "warning"
    assert line["reason"] == f"no broker answers at {address}: {reason}"


async def test_connection_to_a_silent_upstream_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxied_connection, "SETUP_TIMEOUT_S", 0.01)
    plain = ssl.create_default_context()

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream, upstream_tls=plain) as proxy,
        connected(proxy) as (reader, _),
    ):
        assert await reader.read() == b""
        assert f"{upstream}: no connection within 0.01 s" in proxy.log.getvalue()


async def test_upstream_that_closes_during_the_tls_handshake_is_logged() -> None:
    async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with (
        scripted_cluster(close_at_once) as upstream,
        running_proxy(upstream, upstream_tls=ssl.create_default_context()) as proxy,
        connected(proxy) as (reader, _),
    ):
        assert await reader.read() == b""
        assert f"no broker answers at {upstream}: " in proxy.log.getvalue()
        assert "it cannot be reached" not in proxy.log.getvalue()


async def test_next_bootstrap_address_is_tried() -> None:
    async with (
        scripted_cluster(echo) as upstream,
        running_proxy(Address(LOOPBACK, free_port()), upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(heartbeat(1))
        assert len(await read_frame(reader)) > 8


async def test_malformed_request_closes_only_its_connection_and_is_logged() -> None:
    bad = (
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        framed(header(3, 99)),
    )
    async with (
        scripted_cluster(echo) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        for data in bad:
            async with connected(proxy) as (bad_reader, bad_writer):
                bad_writer.write(data)
                assert await bad_reader.read() == b""
        writer.write(heartbeat(1))
        assert len(await read_frame(reader)) > 8
        log_text = proxy.log.getvalue()
    assert "negative frame length -1" in log_text
    assert "frame length 2147483647 is above" in log_text
    assert "seems to speak HTTP" in log_text
    assert "Metadata v99" in log_text
    assert log_text.count("connection closed") == len(bad)


async def test_malformed_response_closes_the_connection_and_is_logged() -> None:
    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await writer.drain()

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, _),
    ):
        assert await reader.read() == b""
        assert "upstream: a response without a pending request" in proxy.log.getvalue()


async def test_client_is_not_read_while_upstream_does_not_read() -> None:
    """The cluster reads nothing, and the client tries to send 100 MB."""

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await blocked.wait()
        writer.transport.abort()

    blocked = asyncio.Event()
    async with (
        scripted_cluster(script, limit=1000) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (_, writer),
    ):
        sent = 0
        frame = heartbeat(1, 1_000_000)
        try:
            while sent < 100:
                writer.write(frame)
                sent += 1
                await asyncio.wait_for(writer.drain(), 0.2)
        except TimeoutError:
            pass
        assert sent < 60
        assert proxy.proxy.totals.from_clients_bytes < 60_000_000
        blocked.set()


async def test_number_of_pending_requests_is_limited() -> None:
    """The requests are small, so that full buffers would not limit them."""
    may_respond = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_respond.wait()
        await echo(reader, writer)

    count, most = 60_000, MAX_PENDING_REQUESTS * len(heartbeat(0))
    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(b"".join(heartbeat(number) for number in range(count)))
        while proxy.proxy.totals.from_clients_bytes < most:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert proxy.proxy.totals.from_clients_bytes < count * len(heartbeat(0))
        may_respond.set()
        for number in range(count):
            assert (await read_frame(reader))[4:8] == number.to_bytes(4)


async def test_half_closed_client_still_gets_responses() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request_bytes = await reader.read()  # to the end
        writer.write(framed(request_bytes[8:12] + b"late"))

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(heartbeat(3))
        writer.write_eof()
        assert await reader.read() == framed((3).to_bytes(4) + b"late")


async def test_half_closed_upstream_still_gets_requests() -> None:
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        received.set_result(await read_frame(reader))

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        assert await reader.read() == b""
        writer.write(heartbeat(1))
        assert await received == heartbeat(1)


async def test_sasl_tokens_without_header_are_forwarded() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshake = await read_frame(reader)
        writer.write(framed(handshake[8:12] + b"\0\0" + bytes(4)))
        assert await read_frame(reader) == framed(b"\0user\0secret")
        writer.write(framed(b""))
        await echo(reader, writer)

    async with (
        scripted_cluster(script) as upstream,
        running_proxy(upstream) as proxy,
        connected(proxy) as (reader, writer),
    ):
        writer.write(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
        assert len(await read_frame(reader)) == 14
        writer.write(framed(b"\0user\0secret"))
        assert await read_frame(reader) == framed(b"")
        writer.write(heartbeat(2))
        assert (await read_frame(reader))[4:8] == (2).to_bytes(4)


async def test_recorded_connections_are_unique() -> None:
    """A client may connect to two listeners of one node from the same port."""
    answers: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_frame(reader):
            writer.write(answers[0])

    async with scripted_cluster(script) as upstream, running_proxy(upstream) as proxy:
        row = MetadataResponse.MetadataResponseBroker(
            node_id=5, host=upstream.host, port=upstream.port
        )
        answers.append(response_frame(MetadataResponse(brokers=[row]), 12))
        async with connected(proxy) as (reader, writer):
            writer.write(request_frame(MetadataRequest(topics=None), 12))
            (broker,) = parse_response_frame(await read_frame(reader), 3, 12).brokers
            port = writer.get_extra_info("sockname")[1]
            async with connected(proxy, port, to=broker.port) as (other_reader, other_writer):
                other_writer.write(request_frame(MetadataRequest(topics=None), 12))
                await read_frame(other_reader)
        first, second = proxy.recorder.taps
    assert first.client == (LOOPBACK, port)
    assert first.broker == second.broker == (upstream.host, upstream.port)
    assert second.client != first.client
    assert (first.node_id, second.node_id) == (UNKNOWN_NODE, 5)


async def test_bootstrap_address_of_a_known_node_is_recorded_as_the_node() -> None:
    async with scripted_cluster(echo) as upstream, running_proxy(upstream) as proxy:
        proxy.proxy._nodes.proxy_addresses([NodeAddress(Node(5), upstream)])
        async with connected(proxy) as (reader, writer):
            writer.write(heartbeat(1))
            await read_frame(reader)
        assert proxy.recorder.taps[0].node_id == 5
