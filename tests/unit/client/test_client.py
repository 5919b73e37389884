"""KafkaClient: negotiation of versions, and error messages in one line."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.client import client as module
from kafkalite.client.access import Access, Login
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.testing.clock import ManualClock
from tests.unit.client.scripted_broker import FIND, INIT, ScriptedBroker, listening

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

THROTTLE_MS = 500
CLOSED_PORT = Address("127.0.0.1", 1)
REQUEST = FindCoordinatorRequest(key="t", key_type=1)
KNOWN = Versions(1, 3)


@pytest.mark.parametrize(
    ("served", "known", "spoken"),
    [((0, 6), (1, 3), 3), ((0, 2), (1, 3), 2), ((3, 9), (0, 4), 4)],
)
async def test_the_highest_common_version_is_used(
    served: tuple[int, int], known: tuple[int, int], spoken: int
) -> None:
    broker = ScriptedBroker(versions={INIT: served})
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        request = InitProducerIdRequest(transactional_id="t")
        answer = await client.ask(address, request, Versions(*known))
        assert (answer.producer_id, answer.producer_epoch) == (7, 3)
        assert broker.asked[-1] == (INIT, spoken)


async def test_an_unsupported_api_is_not_requested() -> None:
    broker = ScriptedBroker(versions={FIND: (4, 6)})
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        for request, known in ((REQUEST, KNOWN), (InitProducerIdRequest(), Versions(0, 5))):
            with pytest.raises(UnreachableError, match="does not support "):
                await client.ask(address, request, known)
    assert {key for key, _ in broker.asked} == {18}


async def test_concurrent_requests_share_one_connection() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        await asyncio.gather(*(client.ask_any(REQUEST, KNOWN) for _ in range(20)))
    assert [key for key, _ in broker.asked] == [18, *[FIND] * 20]


async def test_any_bootstrap_address_that_answers_is_used() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address, KafkaClient([CLOSED_PORT, address]) as client:
        assert (await client.ask_any(REQUEST, KNOWN)).error_code == 0


async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del writer
    await reader.read()


async def test_an_address_without_an_answer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETUP_TIMEOUT_S", 0.05)
    async with listening(never_answer) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=r"within 0\.05 s"):
            await client.check_reachable()


async def test_an_address_without_an_answer_does_not_block_others() -> None:
    broker = ScriptedBroker()
    came = asyncio.Event()

    async def accept_silently(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await never_answer(reader, writer)

    async with (
        listening(accept_silently) as mute,
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


async def test_the_error_has_the_reason_of_each_address() -> None:
    unknown = Address("no-such-host.invalid", 9092)
    async with KafkaClient([CLOSED_PORT, unknown]) as client:
        with pytest.raises(UnreachableError) as refusal:
            await client.check_reachable()
    text = str(refusal.value)
    assert "no broker answers at 127.0.0.1:1: connection refused; " in text
    assert "no broker answers at no-such-host.invalid:9092: " in text
    assert "\n" not in text


async def close_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.close()


async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


async def answer_unknown_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await reader.readexactly(4)
    writer.write(b"\0\0\0\x0a\0\0\0\x63\0\0\0\0\0\0")
    await writer.drain()


async def answer_invalid_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.write(b"\0\0\0\x07\0\0\0\x01\0\0\0")
    await writer.drain()


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        (close_connection, "closed the connection"),
        (speak_http, "is not a Kafka broker"),
        (answer_unknown_request, "is not a Kafka broker"),
        (answer_invalid_bytes, "is not a Kafka broker"),
    ],
)
async def test_a_server_that_is_not_a_broker_is_detected(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], message: str
) -> None:
    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=message):
            await client.check_reachable()


async def test_a_late_answer_is_not_taken_for_the_next() -> None:
    """A request that times out closes its connection."""
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


async def test_a_connection_that_was_closed_as_idle_is_opened_again() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await broker.serve_one(reader, writer)
        await writer.drain()

    async with listening(serve) as address, KafkaClient([address]) as client:
        for _ in range(3):
            assert (await client.ask(address, REQUEST, KNOWN)).error_code == 0
    assert [key for key, _ in broker.asked] == [18, FIND] * 3


async def test_a_broker_that_always_disconnects_is_unreachable() -> None:
    broker = ScriptedBroker()
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await broker.serve_one(reader, writer)
        if opened == 1:
            await broker.serve_one(reader, writer)
        await close_connection(reader, writer)

    async with listening(serve) as address, KafkaClient([address]) as client:
        await client.ask(address, REQUEST, KNOWN)
        with pytest.raises(UnreachableError, match="closed the connection"):
            await client.ask(address, REQUEST, KNOWN)
    assert opened == 2


async def test_a_broker_with_tls_only_is_detected() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x50")

    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match="accepts TLS only"):
            await client.check_reachable()


async def test_a_slow_answer_times_out_after_the_limit_of_the_client() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.serve_one(reader, writer)
        await never_answer(reader, writer)

    async with (
        listening(serve) as address,
        KafkaClient([address], response_timeout_s=0.05) as client,
    ):
        with pytest.raises(UnreachableError, match=r"does not answer within 0\.05 s"):
            await client.copy().ask(address, REQUEST, KNOWN)


async def test_the_remaining_time_limits_a_request() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.serve_one(reader, writer)  # ApiVersions only
        await reader.read()

    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=r"does not answer in the remaining 0\.05 s"):
            await client.ask(address, REQUEST, KNOWN, timeout_s=0.05)
        asked = len(broker.asked)
        for timeout_s in (0, -1):
            with pytest.raises(UnreachableError, match="no time remains to ask the broker"):
                await client.ask(address, REQUEST, KNOWN, timeout_s=timeout_s)
            with pytest.raises(UnreachableError, match="no time remains to ask the broker"):
                await client.send(address, REQUEST, KNOWN, timeout_s=timeout_s)
        assert len(broker.asked) == asked


async def test_the_remaining_time_limits_the_time_to_connect() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match="in the remaining"):
            await client.metadata(at=address, timeout_s=0.05)
        with pytest.raises(UnreachableError, match="in the remaining"):
            await client.find_coordinator("shop", 0, timeout_s=0.05)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (Address("127.0.0.1", -1), r"no broker can be at 127\.0\.0\.1:-1"),
        (Address("127.0.0.1", 0), r"no broker can be at 127\.0\.0\.1:0"),
        (Address("127.0.0.1", 70_000), r"no broker can be at 127\.0\.0\.1:70000"),
        (Address("", 9092), "no broker can be at :9092"),
        (Address("x" * 300, 9092), "the host name is invalid"),
    ],
)
async def test_an_impossible_address_is_rejected(address: Address, message: str) -> None:
    """A broker may advertise any address, and some systems treat port -1 as 65535."""
    async with KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=message):
            await client.check_reachable()


@pytest.mark.parametrize(
    ("access", "question"),
    [
        (Access(), "does it require TLS?"),
        (Access(ssl.create_default_context()), "does it support TLS?"),
        (Access(login=Login("PLAIN", "u", "p")), "does it require TLS?"),
    ],
)
async def test_only_tls_can_be_the_cause_before_the_first_answer(
    access: Access, question: str
) -> None:
    """A broker that requires a password answers ApiVersions without one."""
    async with listening(close_connection) as address, KafkaClient([address], access) as client:
        with pytest.raises(UnreachableError) as closed:
            await client.check_reachable()
    assert question in str(closed.value)
    assert "password" not in str(closed.value)


@pytest.mark.parametrize(
    ("access", "question"),
    [
        (Access(), "does it require a password?"),
        (Access(login=Login("PLAIN", "u", "p")), "does it support passwords?"),
    ],
)
async def test_only_the_login_can_be_the_cause_after_the_versions(
    access: Access, question: str
) -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.serve_one(reader, writer)  # ApiVersions only
        await close_connection(reader, writer)

    async with listening(serve) as address, KafkaClient([address], access) as client:
        with pytest.raises(UnreachableError) as closed:
            await client.ask(address, REQUEST, KNOWN)
    assert question in str(closed.value)
    assert "TLS" not in str(closed.value)


async def test_a_password_can_be_the_cause_at_a_second_request_for_the_versions() -> None:
    broker = ScriptedBroker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.serve_one(reader, writer)  # as Kafka, which answers ApiVersions once
        await close_connection(reader, writer)

    async with listening(serve) as address, KafkaClient([address]) as client:
        with pytest.raises(UnreachableError, match=r"\(does it require a password\?"):
            await client.ask(address, ApiVersionsRequest(), Versions(0, 2))


async def test_access_is_not_the_cause_at_a_broker_that_has_answered() -> None:
    broker = ScriptedBroker()
    is_open = True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (broker.serve(reader, writer) if is_open else close_connection(reader, writer))

    async with listening(serve) as address, KafkaClient([address]) as client:
        await client.ask(address, REQUEST, KNOWN)
        is_open = False
        with pytest.raises(UnreachableError) as closed:
            await client.copy().check_reachable()
    assert str(closed.value).endswith("answering ApiVersions v0 (its log may have the reason)")


async def test_a_request_without_a_response_is_sent() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address, KafkaClient([address]) as client:
        assert client.bootstrap == [address]
        await client.send(address, REQUEST, KNOWN)
        assert (await client.ask(address, REQUEST, KNOWN)).error_code == 0
        with pytest.raises(UnreachableError, match="does not support FindCoordinator"):
            await client.send(address, REQUEST, Versions(30, 31))
    assert [key for key, _ in broker.asked] == [18, FIND, FIND]


async def test_a_throttled_client_sends_the_next_request_when_the_quota_allows_it() -> None:
    clock = ManualClock()
    broker, other = ScriptedBroker(throttle_ms=(THROTTLE_MS,)), ScriptedBroker()
    async with (
        listening(broker.serve) as address,
        listening(other.serve) as unthrottled,
        KafkaClient([address], clock=clock, response_timeout_s=60) as client,
    ):
        await client.ask(address, REQUEST, KNOWN)
        asked = len(broker.asked)
        next_request = asyncio.create_task(client.ask(address, REQUEST, KNOWN))
        for _ in range(10):  # more turns than the request needs before it waits
            await asyncio.sleep(0)
        assert clock.next_deadline_ms == clock.now_ms() + THROTTLE_MS
        await client.ask(unthrottled, REQUEST, KNOWN)
        clock.advance(THROTTLE_MS - 1)
        assert (len(broker.asked), next_request.done()) == (asked, False)
        clock.advance(1)
        await next_request
        await client.ask(address, REQUEST, KNOWN)
