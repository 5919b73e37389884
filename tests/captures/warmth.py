"""A broker that has just started, made to have its coordinators ready before anything is recorded.

Otherwise a recording begins with errors that go away by themselves, as many as the machine is slow.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.control.kafka_client import KafkaClient
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_GROUPS, _TRANSACTIONS, _SHARES = 0, 1, 2
_NAMES = [f"warm-{number}" for number in range(40)]
"""Enough to fall to every coordinator."""

_SHARE_KEY = "warm:AAAAAAAAAAAAAAAAAAAAAQ:0"
_TIMEOUT_S = 30.0
_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def warm_up(bootstrap: str, *, is_alone: bool = True) -> None:
    """Wait until groups, transactions and share groups have coordinators that have loaded.

    Nothing is left of it but the internal topics. Of several nodes, of which each coordinates some,
    it is only seen that there are coordinators.
    """
    asyncio.run(_warm_up(Address.parse(bootstrap), is_alone=is_alone))


async def _warm_up(address: Address, *, is_alone: bool) -> None:
    async with KafkaClient([address]) as client:
        for kind, keys in (
            (_GROUPS, _NAMES),
            (_TRANSACTIONS, _NAMES),
            (_SHARES, [_SHARE_KEY]),
        ):
            await _until_ready(partial(_coordinators, client, kind, keys))
        if is_alone:
            await _until_ready(lambda: _groups(client))
            await _until_ready(lambda: _transactions(client))


async def _until_ready(ask: Callable[[], Awaitable[set[int]]]) -> None:
    """Ask again until there is no error that passes."""
    deadline = time.monotonic() + _TIMEOUT_S
    while errors := await ask() & _NOT_YET:
        assert time.monotonic() < deadline, errors
        await asyncio.sleep(0.05)


async def _coordinators(client: KafkaClient, kind: int, keys: list[str]) -> set[int]:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
    found = await client.ask_any(request, Versions(4, 6))
    return {row.error_code for row in found.coordinators}


async def _groups(client: KafkaClient) -> set[int]:
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name) for name in _NAMES]
    for group in groups:
        group.topics = None
    found = await client.ask_any(OffsetFetchRequest(groups=groups), Versions(8, 9))
    return {row.error_code for row in found.groups}


async def _transactions(client: KafkaClient) -> set[int]:
    request = DescribeTransactionsRequest(transactional_ids=_NAMES)
    found = await client.ask_any(request, Versions(0, 0))
    return {row.error_code for row in found.transaction_states}
