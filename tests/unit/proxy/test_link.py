"""Links: what one side sends the other gets, and whoever misbehaves hurts nobody else."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.proxy import link
from kafkalite.proxy.link import MAX_UNANSWERED, UNKNOWN_NODE
from kafkalite.proxy.rewriting import Known, Node
from kafkalite.server.addresses import Address
from tests.oracle.target import free_port
from tests.unit.frames import framed, header, request_frame, response_frame
from tests.unit.proxy.world import (
    LOOPBACK,
    PATIENCE_S,
    Stage,
    frame_from,
    response_of,
    scripted,
    staged,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


HEARTBEAT = 12


def beat(correlation_id: int, size: int = 0) -> bytes:
    return framed(header(HEARTBEAT, 4, correlation_id=correlation_id) + bytes(size))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with its correlation id and what else it holds."""
    while True:
        frame = await frame_from(reader)
        writer.write(framed(frame[8:]))
        await writer.drain()


@asynccontextmanager
async def visiting(
    stage: Stage, port: int = 0, *, to: int = 0
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Be a client of the proxy, at a port of our own."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.setblocking(False)
    client.bind((LOOPBACK, port))
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (LOOPBACK, to or stage.bootstrap.port))
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_bytes_go_both_ways_and_on_record() -> None:
    sent = b"".join(beat(number, number * 1000) for number in range(100))
    async with (
        scripted(echo) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(sent)
        answers = [await frame_from(reader) for _ in range(100)]
        client = writer.get_extra_info("sockname")
        writer.close()
        await asyncio.wait_for(stage.proxy.drained(), PATIENCE_S)
        (tap,) = stage.recorder.taps
    assert [int.from_bytes(each[4:8]) for each in answers] == list(range(100))
    assert bytes(tap.requests) == sent
    assert bytes(tap.responses) == b"".join(answers)
    assert (tap.client, tap.broker) == (client, (upstream.host, upstream.port))
    assert (tap.node_id, tap.listener, tap.is_closed) == (UNKNOWN_NODE, "PLAINTEXT", True)
    totals = stage.proxy.totals
    assert (totals.connections, totals.requests) == (1, 100)
    assert totals.from_clients_bytes == len(sent)
    assert totals.to_clients_bytes == len(tap.responses)


async def test_what_was_lost_is_recorded_again_once_all_is_answered() -> None:
    async with (
        scripted(echo) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(beat(1))
        await frame_from(reader)
        (tap,) = stage.recorder.taps
        tap.is_lost = True
        writer.write(beat(2) + beat(3)[:7])
        await frame_from(reader)
        assert not tap.is_lost
        assert bytes(tap.requests) == beat(2) + beat(3)[:7]
        tap.is_lost = True
        writer.write(beat(3)[7:])
        await frame_from(reader)
        assert tap.is_lost, "its request was under way"
        writer.write(beat(4))
        answer = await frame_from(reader)
        assert (bytes(tap.requests), bytes(tap.responses)) == (beat(4), answer)


async def test_what_is_recorded_is_what_the_cluster_said() -> None:
    response = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=5, host="inside", port=9092)]
    )
    answer = response_frame(response, 12)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await frame_from(reader)
        writer.write(answer)
        await reader.read()

    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(request_frame(MetadataRequest(topics=None), 12))
        told = response_of(await frame_from(reader), 3, 12).brokers[0]
        (tap,) = stage.recorder.taps
    assert bytes(tap.responses) == answer
    assert (told.node_id, told.host) == (5, LOOPBACK)
    assert told.port not in (9092, stage.bootstrap.port)


async def test_nobody_upstream_is_told_in_a_line() -> None:
    nobody = Address(LOOPBACK, free_port())
    async with staged(nobody, nobody) as stage, visiting(stage) as (reader, _):
        assert await reader.read() == b""
        assert stage.recorder.taps == []
        said = stage.log.getvalue()
    assert f"no broker answers at {nobody}: connection refused; {nobody}: " in said


async def test_a_host_that_does_not_exist_is_told_in_a_line() -> None:
    async with (
        staged(Address("no.such.host.invalid", 1)) as stage,
        visiting(stage) as (reader, _),
    ):
        assert await reader.read() == b""
        assert "no broker answers at no.such.host.invalid:1: " in stage.log.getvalue()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (Address("a\0b", 9092), "this is no name of a host"),
        (Address("long" * 100, 9092), "this is no name of a host"),
        (Address(LOOPBACK, -1), "none can be there"),
        (Address(LOOPBACK, 2**16 + 9092), "none can be there"),
    ],
)
async def test_an_address_that_can_be_none_is_told_in_a_line(told: Address, why: str) -> None:
    """A cluster may say that its nodes are anywhere."""
    async with staged(told) as stage, visiting(stage) as (reader, _):
        assert await reader.read() == b""
        (said,) = map(json.loads, stage.log.getvalue().splitlines())
    assert said["level"] == "warning"
    assert said["reason"] == f"no broker answers at {told}: {why}"


async def test_a_silent_upstream_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 0.01)
    plain = ssl.create_default_context()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        scripted(talk) as upstream,
        staged(upstream, upstream_tls=plain) as stage,
        visiting(stage) as (reader, _),
    ):
        assert await reader.read() == b""
        assert f"{upstream}: nothing within 0.01 s" in stage.log.getvalue()


async def test_an_upstream_that_ends_the_handshake_of_tls_is_told() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with (
        scripted(hang_up) as upstream,
        staged(upstream, upstream_tls=ssl.create_default_context()) as stage,
        visiting(stage) as (reader, _),
    ):
        assert await reader.read() == b""
        assert f"no broker answers at {upstream}: " in stage.log.getvalue()
        assert "it cannot be reached" not in stage.log.getvalue()


async def test_the_next_bootstrap_address_is_tried() -> None:
    async with (
        scripted(echo) as upstream,
        staged(Address(LOOPBACK, free_port()), upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(beat(1))
        assert len(await frame_from(reader)) > 8


async def test_a_bad_client_is_closed_with_a_line_and_others_are_unharmed() -> None:
    bad = (
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        framed(header(3, 99)),
    )
    async with (
        scripted(echo) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        for hostile in bad:
            async with visiting(stage) as (their_reader, their_writer):
                their_writer.write(hostile)
                assert await their_reader.read() == b""
        writer.write(beat(1))
        assert len(await frame_from(reader)) > 8
        said = stage.log.getvalue()
    assert "negative frame length -1" in said
    assert "frame length 2147483647 is above" in said
    assert "seems to speak HTTP" in said
    assert "Metadata of version 99" in said
    assert said.count("connection closed") == len(bad)


async def test_an_upstream_that_talks_nonsense_is_closed_with_a_line() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await writer.drain()

    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, _),
    ):
        assert await reader.read() == b""
        assert "upstream: an answer that nobody asked for" in stage.log.getvalue()


async def test_whoever_does_not_read_stops_the_other_from_being_read() -> None:
    """A cluster that takes nothing; a client that would send 100 MB."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await blocked.wait()
        writer.transport.abort()

    blocked = asyncio.Event()
    async with (
        scripted(talk, limit=1000) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (_, writer),
    ):
        sent = 0
        frame = beat(1, 1_000_000)
        try:
            while sent < 100:
                writer.write(frame)
                sent += 1
                await asyncio.wait_for(writer.drain(), 0.2)
        except TimeoutError:
            pass
        assert sent < 60
        assert stage.proxy.totals.from_clients_bytes < 60_000_000
        blocked.set()


async def test_requests_under_way_have_a_limit() -> None:
    """Small ones, that no buffer would stop."""
    may_answer = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_answer.wait()
        await echo(reader, writer)

    count, most = 60_000, MAX_UNANSWERED * len(beat(0))
    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(b"".join(beat(number) for number in range(count)))
        while stage.proxy.totals.from_clients_bytes < most:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert stage.proxy.totals.from_clients_bytes < count * len(beat(0))
        may_answer.set()
        for number in range(count):
            assert (await frame_from(reader))[4:8] == number.to_bytes(4)


async def test_a_client_that_has_finished_still_gets_its_answers() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()  # to the end
        writer.write(framed(asked[8:12] + b"late"))

    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(beat(3))
        writer.write_eof()
        assert await reader.read() == framed((3).to_bytes(4) + b"late")


async def test_an_upstream_that_has_finished_may_still_be_told() -> None:
    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        told.set_result(await frame_from(reader))

    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        assert await reader.read() == b""
        writer.write(beat(1))
        assert await told == beat(1)


async def test_bare_sasl_tokens_pass() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshake = await frame_from(reader)
        writer.write(framed(handshake[8:12] + b"\0\0" + bytes(4)))
        assert await frame_from(reader) == framed(b"\0user\0secret")
        writer.write(framed(b""))
        await echo(reader, writer)

    async with (
        scripted(talk) as upstream,
        staged(upstream) as stage,
        visiting(stage) as (reader, writer),
    ):
        writer.write(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
        assert len(await frame_from(reader)) == 14
        writer.write(framed(b"\0user\0secret"))
        assert await frame_from(reader) == framed(b"")
        writer.write(beat(2))
        assert (await frame_from(reader))[4:8] == (2).to_bytes(4)


async def test_no_two_connections_on_record_are_the_same() -> None:
    """A client may reach two of our listeners, which lead to one node, from the same port."""
    answers: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await frame_from(reader):
            writer.write(answers[0])

    async with scripted(talk) as upstream, staged(upstream) as stage:
        row = MetadataResponse.MetadataResponseBroker(
            node_id=5, host=upstream.host, port=upstream.port
        )
        answers.append(response_frame(MetadataResponse(brokers=[row]), 12))
        async with visiting(stage) as (reader, writer):
            writer.write(request_frame(MetadataRequest(topics=None), 12))
            (broker,) = response_of(await frame_from(reader), 3, 12).brokers
            port = writer.get_extra_info("sockname")[1]
            async with visiting(stage, port, to=broker.port) as (other_reader, other_writer):
                other_writer.write(request_frame(MetadataRequest(topics=None), 12))
                await frame_from(other_reader)
        first, second = stage.recorder.taps
    assert first.client == (LOOPBACK, port)
    assert first.broker == second.broker == (upstream.host, upstream.port)
    assert second.client != first.client
    assert (first.node_id, second.node_id) == (UNKNOWN_NODE, 5)


async def test_a_bootstrap_address_that_is_a_known_node_s_is_recorded_as_that_node() -> None:
    async with scripted(echo) as upstream, staged(upstream) as stage:
        stage.proxy._nodes.tell([Known(Node(5), upstream)])
        async with visiting(stage) as (reader, writer):
            writer.write(beat(1))
            await frame_from(reader)
        assert stage.recorder.taps[0].node_id == 5
