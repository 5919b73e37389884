"""Connection: requests are pipelined, and a lost connection resolves all pending requests."""

from __future__ import annotations

import asyncio
from struct import pack, unpack, unpack_from

import pytest

from kafkalite.client.connection import (
    ConnectError,
    Connection,
    InvalidAddressError,
    UnreachableError,
    connect,
    reason_of,
)
from kafkalite.client.exchanges import encode_request
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from tests.unit.client.scripted_broker import FIND, VERSIONS, ScriptedBroker, listening

REQUEST = FindCoordinatorRequest(key="t", key_type=1)


async def test_frames_are_sent_together_and_answered_in_order() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address:
        connection = await Connection.open(address)
        pending = [connection.send(encode_request(REQUEST, 1, each), each) for each in (7, 9)]
        assert broker.asked == []
        connection.flush()
        for each in pending:
            await each.wait(None)
        connection.close()
        await connection.wait_closed()
    assert broker.asked == [(FIND, 1)] * 2
    assert [(each.frame or b"")[:4] for each in pending] == [pack(">i", 7), pack(">i", 9)]


async def test_versions_are_requested_only_on_demand() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address:
        connection = await Connection.open(address, with_versions=True)
        answer = await connection.ask(REQUEST, Versions(0, 2))
        assert answer.node_id == 1
        connection.close()
    assert broker.asked == [(VERSIONS, 0), (FIND, 2)]


async def test_a_lost_connection_resolves_pending_and_later_requests() -> None:
    async def close_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.close()

    async with listening(close_connection) as address:
        connection = await Connection.open(address)
        with pytest.raises(UnreachableError) as lost:
            await connection.call(REQUEST, 1)
        assert str(lost.value).endswith(
            "closed the connection instead of answering FindCoordinator v1 "
            "(does it require TLS? does it require a password? its log may have the reason)"
        )
        assert connection.is_lost
        late = connection.send(b"", 1)
        assert late.is_resolved
        assert late.frame is None


async def test_a_broker_that_has_answered_requires_no_other_access() -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = unpack(">i", await reader.readexactly(4))
        (correlation_id,) = unpack_from(">i", await reader.readexactly(size), 4)
        body: list[bytes | memoryview] = []
        codec.response_builder(10, 0)(codec.response_class(10)(), body)
        writer.write(pack(">ii", 4 + sum(map(len, body)), correlation_id) + b"".join(body))
        await reader.readexactly(4)
        writer.close()

    async with listening(answer_once) as address:
        connection = await Connection.open(address)
        await connection.call(REQUEST, 0)
        with pytest.raises(UnreachableError, match="closed the connection") as lost:
            await connection.call(REQUEST, 0)
        assert str(lost.value).endswith("FindCoordinator v0 (its log may have the reason)")


async def test_unexpected_bytes_close_the_connection() -> None:
    async def answer_unknown_request(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readexactly(4)
        writer.write(pack(">ii", 4, 77))
        await reader.read()

    async with listening(answer_unknown_request) as address:
        connection = await Connection.open(address)
        pending = connection.send(b"", 1)
        connection.flush()
        await pending.wait(None)
        assert pending.frame is None
        assert connection.loss_reason == "an answer with the unknown correlation id 77"


@pytest.mark.parametrize("port", [-1, 0, 70_000])
async def test_no_connection_to_an_impossible_address_is_attempted(port: int) -> None:
    with pytest.raises(InvalidAddressError):
        await connect(asyncio.Protocol, Address("127.0.0.1", port), None)


async def test_a_refused_connection_has_the_text_of_the_system() -> None:
    with pytest.raises(ConnectError, match="connection refused"):
        await connect(asyncio.Protocol, Address("127.0.0.1", 1), None)


def test_a_closed_connection_and_an_unreachable_broker_have_different_reasons() -> None:
    assert reason_of(ConnectionResetError()) == "it closed the connection"
    assert reason_of(OSError("Multiple exceptions")) == "it cannot be reached"
