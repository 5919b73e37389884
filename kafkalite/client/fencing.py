"""Producer fencing (KIP-618), as Java's Admin.fenceProducers does it.

There is no special request for it. An InitProducerId request for a transactional id fences the
previous producer and aborts its open transaction; the new producer id is not used afterwards.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.client.access import PLAINTEXT
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.exchanges import error_text
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.client.access import Access
    from kafkalite.server.addresses import Address

DEFAULT_TIMEOUT_MS = 30_000

_TRANSACTION_KEY_TYPE = 1
_INIT_PRODUCER_ID_VERSIONS = Versions(0, 5)

_RETRY_ERRORS = frozenset(
    (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
"""Errors while the previous transaction is completed or the coordinator is loading: retry."""
_COORDINATOR_ERRORS = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
"""Errors after which the coordinator is looked up again."""

_INITIAL_BACKOFF_S, _MAX_BACKOFF_S = 0.02, 1.0


class FencingResult(NamedTuple):
    """The result for one transactional id: its new producer id and epoch, or an error."""

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    error: str | None = None
    """The reason of the failure, in one line."""


async def fence_producers(
    bootstrap: Sequence[Address],
    transactional_ids: Sequence[str],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    access: Access = PLAINTEXT,
) -> list[FencingResult]:
    """Fence the producers of these ids, and return the result for each.

    Raises UnreachableError if no broker answers. A request that fails is retried for `timeout_ms`.
    As in Java, this is also the transaction timeout of the id until its next producer sets another.
    """
    async with KafkaClient(bootstrap, access=access) as client:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await client.check_reachable()
        except TimeoutError:
            addresses = ", ".join(map(str, bootstrap))
            raise UnreachableError(
                f"no broker answers at {addresses} within {timeout_ms} ms"
            ) from None
        return await fence_with(client, transactional_ids, timeout_ms)


async def fence_with(
    client: KafkaClient, transactional_ids: Sequence[str], timeout_ms: int
) -> list[FencingResult]:
    """Fence the producers of these ids as `fence_producers` does, with a client."""
    fencings = [
        _ProducerFencing(client, transactional_id, timeout_ms)
        for transactional_id in dict.fromkeys(transactional_ids)
    ]
    return list(await asyncio.gather(*(fencing.fence() for fencing in fencings)))


class _ProducerFencing:
    """The fencing of one transactional id."""

    def __init__(self, client: KafkaClient, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator: Address | None = None
        self._failure = "no answer"

    async def fence(self) -> FencingResult:
        """Request a new producer id or epoch, with retries until the timeout."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                backoff_s = _INITIAL_BACKOFF_S
                while True:
                    result = await self._attempt()
                    if result is not None:
                        return result
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)
        except TimeoutError:
            error = f"failed for {self._timeout_ms} ms: {self._failure}"
            return FencingResult(self._id, error=error)

    async def _attempt(self) -> FencingResult | None:
        """Make one attempt; return None if it failed and may be retried."""
        try:
            code = await self._find_coordinator() if self._coordinator is None else ErrorCode.NONE
            if code is ErrorCode.NONE:
                return await self._initialize()
        except UnreachableError as error:
            self._failure = str(error)
            self._coordinator = None
            return None
        return self._handle_error(code)

    async def _find_coordinator(self) -> ErrorCode:
        coordinator = await self._client.find_coordinator(self._id, _TRANSACTION_KEY_TYPE)
        if not coordinator.error:
            self._coordinator = coordinator.address
        return coordinator.error

    async def _initialize(self) -> FencingResult | None:
        assert self._coordinator is not None
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms
        )
        response = await self._client.ask(self._coordinator, request, _INIT_PRODUCER_ID_VERSIONS)
        if not response.error_code:
            return FencingResult(self._id, response.producer_id, response.producer_epoch)
        return self._handle_error(ErrorCode(response.error_code))

    def _handle_error(self, code: ErrorCode) -> FencingResult | None:
        """Return the result for an error, None if a retry may succeed."""
        self._failure = error_text(code)
        if code in _COORDINATOR_ERRORS:
            self._coordinator = None
        elif code not in _RETRY_ERRORS:
            return FencingResult(self._id, error=self._failure)
        return None
