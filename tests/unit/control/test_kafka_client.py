"""KafkaClient: it speaks what both sides know, and says in one line why it cannot."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.control import kafka_client
from kafkalite.control.access import Access, Login
from kafkalite.control.kafka_client import KafkaClient, UnreachableError, error_named
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from tests.unit.control.scripted_broker import FIND, INIT, ScriptedBroker, listening

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NOBODY = Address("127.0.0.1", 1)
REQUEST = FindCoordinatorRequest(key="t", key_type=1)
KNOWN = Versions(1, 3)


@pytest.mark.parametrize(
    ("served", "known", "spoken"),
    [((0, 6), (1, 3), 3), ((0, 2), (1, 3), 2), ((3, 9), (0, 4), 4)],
)
async def test_the_highest_version_that_both_know_is_spoken(
    served: tuple[int, int], known: tuple[int, int], spoken: int
) -> None:
    broker = ScriptedBroker(versions={INIT: served})
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        request = InitProducerIdRequest(transactional_id="t")
        answer = await client.ask(address, request, Versions(*known))
        assert (answer.producer_id, answer.producer_epoch) == (7, 3)
        assert broker.asked[-1] == (INIT, spoken)


async def test_what_the_broker_does_not_serve_is_not_asked() -> None:
    broker = ScriptedBroker(versions={FIND: (4, 6)})
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        for request, known in ((REQUEST, KNOWN), (InitProducerIdRequest(), Versions(0, 5))):
            with pytest.raises(UnreachableError, match="has no "):
                await client.ask(address, request, known)
    assert {key for key, _ in broker.asked} == {18}


async def test_one_connection_serves_many_who_ask_at_once() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        await asyncio.gather(*(client.ask_any(REQUEST, KNOWN) for _ in range(20)))
    assert [key for key, _ in broker.asked] == [18, *[FIND] * 20]


async def test_any_bootstrap_address_will_do() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address, KafkaClient([NOBODY, address]) as client:
        assert (await client.ask_any(REQUEST, KNOWN)).error_code == 0


async def stay_mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del writer
    await reader.read()


async def test_an_address_where_nobody_speaks_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "_SETUP_S", 0.05)
    async with listening(stay_mute) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=r"within 0\.05 s"):
            await client.reach()


async def test_an_address_where_nobody_speaks_holds_up_no_other() -> None:
    broker = ScriptedBroker()
    came = asyncio.Event()

    async def serve_nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await stay_mute(reader, writer)

    async with (
        listening(serve_nobody) as mute,
        listening(broker.serve) as address,
        KafkaClient([address]) as client,
    ):
        waiting = asyncio.create_task(client.ask(mute, REQUEST, KNOWN))
        await came.wait()
        assert (await client.ask(address, REQUEST, KNOWN)).error_code == 0
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_where_nobody_is_the_reason_is_told_of_each() -> None:
    unknown = Address("no-such-host.invalid", 9092)
    async with KafkaClient([NOBODY, unknown]) as client:
        with pytest.raises(UnreachableError) as refusal:
            await client.reach()
    text = str(refusal.value)
    assert "no broker answers at 127.0.0.1:1: connection refused; " in text
    assert "no broker answers at no-such-host.invalid:9092: " in text
    assert "\n" not in text


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.close()


async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


async def answer_another(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.write(b"\0\0\0\x0a\0\0\0\x63\0\0\0\0\0\0")
    await writer.drain()


async def answer_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.write(b"\0\0\0\x07\0\0\0\x01\0\0\0")
    await writer.drain()


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (hang_up, "closed the connection"),
        (speak_http, "is no Kafka broker"),
        (answer_another, "is no Kafka broker"),
        (answer_nonsense, "is no Kafka broker"),
    ],
)
async def test_what_is_no_broker_is_found_out(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], said: str
) -> None:
    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=said):
            await client.reach()


async def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next() -> None:
    """Whoever gives up leaves the connection behind."""
    broker = ScriptedBroker()
    hung = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if hung.is_set():
            await broker.serve(reader, writer)
        else:
            await broker.serve_one(reader, writer)
            await reader.readexactly(4)
            hung.set()
            await reader.read()

    async with listening(serve) as address, KafkaClient([address]) as client:
        asking = asyncio.create_task(client.ask(address, REQUEST, KNOWN))
        await hung.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await client.ask(address, REQUEST, KNOWN)).error_code == 0


async def test_a_connection_that_was_closed_as_idle_is_opened_anew() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await broker.serve_one(reader, writer)
        await writer.drain()

    async with listening(serve) as address, KafkaClient([address]) as client:
        for _ in range(3):
            assert (await client.ask(address, REQUEST, KNOWN)).error_code == 0
    assert [key for key, _ in broker.asked] == [18, FIND] * 3


async def test_a_broker_that_hangs_up_each_time_is_given_up() -> None:
    broker = ScriptedBroker()
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await broker.serve_one(reader, writer)
        if opened == 1:
            await broker.serve_one(reader, writer)
        await hang_up(reader, writer)

    async with listening(serve) as address, KafkaClient([address]) as client:
        await client.ask(address, REQUEST, KNOWN)
        with pytest.raises(UnreachableError, match="closed the connection"):
            await client.ask(address, REQUEST, KNOWN)
    assert opened == 2


def test_an_error_is_named() -> None:
    assert error_named(ErrorCode.PRODUCER_FENCED).endswith("(PRODUCER_FENCED)")


async def test_a_broker_that_speaks_tls_alone_is_told_apart() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x50")

    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match="speaks TLS alone"):
            await client.reach()


async def test_an_answer_may_take_as_long_as_the_client_is_patient() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.serve_one(reader, writer)
        await stay_mute(reader, writer)

    async with listening(serve) as address, KafkaClient([address], answer_s=0.05) as client:
        with pytest.raises(UnreachableError, match=r"gives no answer within 0\.05 s"):
            await client.alike().ask(address, REQUEST, KNOWN)


def test_who_ends_a_connection_is_told_from_who_cannot_be_reached() -> None:
    assert kafka_client.why(ConnectionResetError()) == "it ended the connection"
    assert kafka_client.why(OSError("Multiple exceptions")) == "it cannot be reached"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (Address("127.0.0.1", -1), r"no broker can be at 127\.0\.0\.1:-1"),
        (Address("127.0.0.1", 0), r"no broker can be at 127\.0\.0\.1:0"),
        (Address("127.0.0.1", 70_000), r"no broker can be at 127\.0\.0\.1:70000"),
        (Address("", 9092), "no broker can be at :9092"),
        (Address("x" * 300, 9092), "this is no name of a host"),
    ],
)
async def test_no_broker_is_where_no_address_is(address: Address, told: str) -> None:
    """A broker may say so of others, and to some systems port -1 is 65535."""
    async with KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=told):
            await client.reach()


async def test_versions_that_make_no_sense_are_not_served() -> None:
    broker = ScriptedBroker(versions={FIND: (6, 4), 22: (-3, 5)})
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match="has no FindCoordinator"):
            await client.ask(address, REQUEST, KNOWN)


async def test_who_speaks_no_tls_is_doubted_to() -> None:
    async with listening(hang_up) as address:
        async with KafkaClient([address], Access(ssl.create_default_context())) as client:
            with pytest.raises(UnreachableError, match=r"does it speak TLS\? does it want a pass"):
                await client.reach()
        async with KafkaClient([address], Access(login=Login("PLAIN", "u", "p"))) as client:
            with pytest.raises(UnreachableError, match="does it want TLS, or no password"):
                await client.reach()
