"""Fencing producers (KIP-618): what Java's Admin.fenceProducers does, for whoever has no Java.

There is no request of its own for it. To begin as a new producer of a transactional id fences
whoever had it before, and ends what that left open; nobody goes on as this producer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.control.kafka_client import KafkaClient, UnreachableError, error_named
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TIMEOUT_MS = 30_000

_TRANSACTION_KEY = 1
_ONE_KEY = Versions(1, 3)
"""Versions of FindCoordinator that name what they look for, and name one."""
_INIT = Versions(0, 5)

_ASK_AGAIN = frozenset((ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
"""What a coordinator says that is still ending the transaction before, or that just began."""
_FIND_AGAIN = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.02, 1.0


class Fenced(NamedTuple):
    """What became of one transactional id: its new producer id and epoch, or why there is none."""

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    error: str | None = None
    """One line for people."""


async def fence_producers(
    bootstrap: Sequence[Address],
    transactional_ids: Sequence[str],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> list[Fenced]:
    """Fence the producers of these ids, and say of each what became of it.

    UnreachableError when no broker is there to begin with. What does not succeed at once is tried
    again for `timeout_ms`; as in Java, that is also the id's transaction timeout until its next
    producer says another.
    """
    async with KafkaClient(bootstrap) as client:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await client.reach()
        except TimeoutError:
            where = ", ".join(map(str, bootstrap))
            raise UnreachableError(f"nobody answers at {where} within {timeout_ms} ms") from None
        fences = [_Fence(client, each, timeout_ms) for each in dict.fromkeys(transactional_ids)]
        return list(await asyncio.gather(*(each.put_up() for each in fences)))


class _Fence:
    """One transactional id, and how far we are."""

    def __init__(self, client: KafkaClient, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator: Address | None = None
        self._hindrance = "no answer"

    async def put_up(self) -> Fenced:
        """Begin as a new producer, trying for as long as there is time."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                pause_s = _FIRST_PAUSE_S
                while True:
                    done = await self._try()
                    if done is not None:
                        return done
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LAST_PAUSE_S)
        except TimeoutError:
            waited = f"given up after {self._timeout_ms} ms: {self._hindrance}"
            return Fenced(self._id, error=waited)

    async def _try(self) -> Fenced | None:
        """Do what is next; None when it is to be tried again."""
        try:
            code = await self._find() if self._coordinator is None else ErrorCode.NONE
            if code is ErrorCode.NONE:
                return await self._begin()
        except UnreachableError as error:
            self._hindrance = str(error)
            self._coordinator = None
            return None
        return self._met(code)

    async def _find(self) -> ErrorCode:
        request = FindCoordinatorRequest(key=self._id, key_type=_TRANSACTION_KEY)
        found = await self._client.ask_any(request, _ONE_KEY)
        if not found.error_code:
            self._coordinator = Address(found.host, found.port)
        return ErrorCode(found.error_code)

    async def _begin(self) -> Fenced | None:
        assert self._coordinator is not None
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms
        )
        begun = await self._client.ask(self._coordinator, request, _INIT)
        if not begun.error_code:
            return Fenced(self._id, begun.producer_id, begun.producer_epoch)
        return self._met(ErrorCode(begun.error_code))

    def _met(self, code: ErrorCode) -> Fenced | None:
        """Return the end of it that an error is, None for one that passes."""
        self._hindrance = error_named(code)
        if code in _FIND_AGAIN:
            self._coordinator = None
        elif code not in _ASK_AGAIN:
            return Fenced(self._id, error=self._hindrance)
        return None
