"""Producer fencing: coordinators are found, producer ids initialized, and errors retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.connection import UnreachableError
from kafkalite.client.fencing import FencingResult, fence_producers
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.addresses import Address
from tests.unit.client.scripted_broker import FIND, INIT, ScriptedBroker, listening

if TYPE_CHECKING:
    import asyncio


async def fenced(broker: ScriptedBroker, *ids: str, timeout_ms: int = 5_000) -> list[FencingResult]:
    async with listening(broker.serve) as address:
        broker.address = address
        return await fence_producers([address], ids, timeout_ms)


async def test_each_id_is_initialized_at_its_coordinator() -> None:
    broker = ScriptedBroker()
    assert await fenced(broker, "a", "b", "a") == [
        FencingResult("a", 7, 3),
        FencingResult("b", 7, 3),
    ]
    assert broker.timeouts == {5_000}
    assert sorted(key for key, _ in broker.asked) == [FIND, FIND, 18, 18, INIT, INIT]


@pytest.mark.parametrize(
    ("inits", "finds"),
    [
        ([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS], 1),
        ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], 1),
        ([ErrorCode.NOT_COORDINATOR], 2),
        ([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS], 2),
    ],
)
async def test_retriable_errors_are_retried(inits: list[int], finds: int) -> None:
    broker = ScriptedBroker(inits=inits)
    assert await fenced(broker, "a") == [FencingResult("a", 7, 3)]
    keys = [key for key, _ in broker.asked]
    assert (keys.count(FIND), keys.count(INIT)) == (finds, len(inits) + 1)


async def test_the_coordinator_is_looked_up_until_it_is_found() -> None:
    broker = ScriptedBroker(finds=[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2)
    assert await fenced(broker, "a") == [FencingResult("a", 7, 3)]


@pytest.mark.parametrize("at", ["finds", "inits"])
async def test_a_fatal_error_is_the_result(at: str) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker = ScriptedBroker(**{at: [code]})  # type: ignore[arg-type]  # one of two names
    first, second = await fenced(broker, "a", "b")
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    assert first.error is not None
    assert first.error.endswith("(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)")
    assert second == FencingResult("b", 7, 3)


async def test_a_timeout_has_the_last_error() -> None:
    broker = ScriptedBroker(inits=[ErrorCode.CONCURRENT_TRANSACTIONS] * 100)
    (one,) = await fenced(broker, "a", timeout_ms=100)
    assert one.error is not None
    assert one.error.startswith("failed for 100 ms: ")
    assert one.error.endswith("(CONCURRENT_TRANSACTIONS)")


async def test_an_unreachable_coordinator_is_retried_until_the_timeout() -> None:
    broker = ScriptedBroker()
    async with listening(broker.serve) as address:
        broker.address = Address("127.0.0.1", 1)
        (one,) = await fence_producers([address], ["a"], 100)
    assert one.error == ("failed for 100 ms: no broker answers at 127.0.0.1:1: connection refused")


async def test_without_a_broker_no_id_is_attempted() -> None:
    with pytest.raises(UnreachableError, match="connection refused"):
        await fence_producers([Address("127.0.0.1", 1)], ["a"], 5_000)


async def test_a_broker_that_does_not_answer_times_out() -> None:
    async def never_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(never_answer) as address:
        with pytest.raises(UnreachableError, match="within 50 ms"):
            await fence_producers([address], ["a"], 50)
