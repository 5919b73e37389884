"""Waits until the coordinators of a newly started broker are ready, before a recording.

Otherwise a recording starts with transient errors, more of them on a slow machine.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.client.client import KafkaClient
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_GROUP_KEY_TYPE, _TRANSACTION_KEY_TYPE, _SHARE_KEY_TYPE = 0, 1, 2
_NAMES = [f"warm-{number}" for number in range(40)]
"""Enough names for every partition of a coordinator's topic."""

_SHARE_KEY = "warm:AAAAAAAAAAAAAAAAAAAAAQ:0"
_TIMEOUT_S = 30.0
_TRANSIENT_ERRORS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def warm_up(bootstrap: str, *, is_alone: bool = True) -> None:
    """Wait until the coordinators of groups, transactions and share groups have loaded.

    Only the internal topics remain. With several nodes it only waits until FindCoordinator returns
    coordinators.
    """
    asyncio.run(_warm_up(Address.parse(bootstrap), is_alone=is_alone))


async def _warm_up(address: Address, *, is_alone: bool) -> None:
    async with KafkaClient([address]) as client:
        for key_type, keys in (
            (_GROUP_KEY_TYPE, _NAMES),
            (_TRANSACTION_KEY_TYPE, _NAMES),
            (_SHARE_KEY_TYPE, [_SHARE_KEY]),
        ):
            await _until_ready(partial(_coordinator_errors, client, key_type, keys))
        if is_alone:
            await _until_ready(lambda: _group_errors(client))
            await _until_ready(lambda: _transaction_errors(client))


async def _until_ready(ask: Callable[[], Awaitable[set[int]]]) -> None:
    """Repeat a request until it has no transient error."""
    deadline = time.monotonic() + _TIMEOUT_S
    while errors := await ask() & _TRANSIENT_ERRORS:
        assert time.monotonic() < deadline, errors
        await asyncio.sleep(0.05)


async def _coordinator_errors(client: KafkaClient, key_type: int, keys: list[str]) -> set[int]:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    response = await client.ask_any(request, Versions(4, 6))
    return {row.error_code for row in response.coordinators}


async def _group_errors(client: KafkaClient) -> set[int]:
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name) for name in _NAMES]
    for group in groups:
        group.topics = None
    response = await client.ask_any(OffsetFetchRequest(groups=groups), Versions(8, 9))
    return {row.error_code for row in response.groups}


async def _transaction_errors(client: KafkaClient) -> set[int]:
    request = DescribeTransactionsRequest(transactional_ids=_NAMES)
    response = await client.ask_any(request, Versions(0, 0))
    return {row.error_code for row in response.transaction_states}
