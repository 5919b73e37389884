"""KafkaClient: sends requests to the brokers of a cluster, kafkalite or Kafka.

Each request is sent in the highest version that both sides support. If a broker has closed the
connection, the client connects again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from kafkalite.client.access import PLAINTEXT
from kafkalite.client.connection import (
    FIRST_VERSION,
    SETUP_TIMEOUT_S,
    Connection,
    DisconnectedError,
    UnreachableError,
)
from kafkalite.client.retries import wait_until
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import TracebackType

    from kafkalite.client.access import Access
    from kafkalite.ports.clock import Clock
    from kafkalite.protocol.message import Message

_SINGLE_KEY_VERSIONS = Versions(1, 3)
"""Versions of FindCoordinator with a key type and a single key."""

_TOPIC_NAME_VERSIONS = Versions(1, 12)
_TOPIC_ID_VERSIONS = Versions(12, 12)
"""Versions of Metadata in which topics can be requested by id."""


class Coordinator(NamedTuple):
    """The broker that coordinates a group or a transactional id, or an error."""

    error: ErrorCode
    node_id: int
    address: Address


class KafkaClient:
    """A client of one cluster, with a connection to each broker that it has used."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        access: Access = PLAINTEXT,
        *,
        response_timeout_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create a client; `bootstrap` are addresses of any brokers of the cluster.

        `response_timeout_s` limits the time of a response; None means no limit. The time for which
        a broker throttles the client is measured by `clock`, by default the machine's time.
        """
        self._clock = AdjustableClock() if clock is None else clock
        self._throttled_until_ms: dict[Address, int] = {}
        """When the quotas of the client at a broker allow the next request."""
        self._bootstrap = bootstrap
        self._response_timeout_s = response_timeout_s
        self._access = access
        self._connections: dict[Address, Connection] = {}
        self._admitting: set[Address] = set()
        """Addresses at which a broker has answered with this access; shared with copies."""
        # One lock per address: an address that does not answer must not block the others.
        self._connect_locks: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    @property
    def bootstrap(self) -> Sequence[Address]:
        """The addresses with which the client was created."""
        return self._bootstrap

    def copy(self) -> KafkaClient:
        """Return another client of the same cluster, without connections yet."""
        copied = KafkaClient(
            self._bootstrap,
            self._access,
            response_timeout_s=self._response_timeout_s,
            clock=self._clock,
        )
        copied._admitting = self._admitting
        return copied

    async def check_reachable(self) -> None:
        """Check that a broker answers; raises UnreachableError if none does."""
        await self.ask_any(ApiVersionsRequest(), Versions(FIRST_VERSION, FIRST_VERSION))

    async def find_coordinator(
        self,
        key: str,
        key_type: int,
        at: Address | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Coordinator:
        """Return the coordinator of a group or transactional id, from `at` or any broker.

        `timeout_s` is that of `ask`.
        """
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response = await self._ask_at_or_any(at, request, _SINGLE_KEY_VERSIONS, timeout_s)
        address = Address(response.host, response.port)
        return Coordinator(ErrorCode(response.error_code), response.node_id, address)

    async def metadata(
        self,
        topics: Sequence[str | bytes] = (),
        at: Address | None = None,
        client_versions: Versions = _TOPIC_NAME_VERSIONS,
        *,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - a MetadataResponse
        """Return the metadata of the cluster and of topics, all given by name or all by id.

        The broker at the address `at` is asked, or any broker if it is None. `timeout_s` is that
        of `ask`.
        """
        topic_row = MetadataRequest.MetadataRequestTopic
        rows = [
            topic_row(name=topic)
            if isinstance(topic, str)
            else topic_row(topic_id=topic, name=None)
            for topic in topics
        ]
        if topics and not isinstance(topics[0], str):
            client_versions = _TOPIC_ID_VERSIONS
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        return await self._ask_at_or_any(at, request, client_versions, timeout_s)

    async def _ask_at_or_any(
        self,
        at: Address | None,
        request: Message,
        client_versions: Versions,
        timeout_s: float | None,
    ) -> Any:  # noqa: ANN401 - any response class
        if at is None:
            return await self.ask_any(request, client_versions, timeout_s=timeout_s)
        return await self.ask(at, request, client_versions, timeout_s=timeout_s)

    async def ask_any(
        self, request: Message, client_versions: Versions, *, timeout_s: float | None = None
    ) -> Any:  # noqa: ANN401 - any response class
        """Return the first response of a bootstrap address; raises UnreachableError without one."""
        reasons = []
        for address in self._bootstrap:
            try:
                return await self.ask(address, request, client_versions, timeout_s=timeout_s)
            except UnreachableError as error:
                reasons.append(str(error))
        raise UnreachableError("; ".join(reasons))

    async def ask(
        self,
        address: Address,
        request: Message,
        client_versions: Versions,
        *,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - any response class
        """Return the response of the broker at `address`; raises UnreachableError without one.

        `timeout_s` limits the time in which the client connects and the broker answers, in addition
        to `response_timeout_s`. Nothing is sent if it is 0. A request to a broker that throttles
        the client is sent when that time is over (KIP-219).
        """
        async with _time_limit(address, timeout_s):
            return await self._ask(address, request, client_versions)

    async def _ask(self, address: Address, request: Message, client_versions: Versions) -> Any:  # noqa: ANN401 - any response class
        cached = self._connections.get(address)
        connection = await self._connection(address)
        await self._wait_for_quota(address)
        try:
            async with asyncio.timeout(self._response_timeout_s):
                response = await connection.ask(request, client_versions)
        except DisconnectedError:
            if connection is not cached:
                raise
            # Brokers close idle connections: retry once on a new connection.
            return await self._ask(address, request, client_versions)
        except TimeoutError as error:
            raise UnreachableError(
                f"the broker at {address} does not answer within "
                f"{self._response_timeout_s or 0:g} s"
            ) from error
        if connection.is_admitted:
            self._admitting.add(address)
        # Brokers before Kafka 2.0 have waited themselves; waiting again does no harm.
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until_ms[address] = self._clock.now_ms() + throttle_ms
        return response

    async def _wait_for_quota(self, address: Address) -> None:
        """Wait until the broker at `address` serves the next request."""
        while address in self._throttled_until_ms:
            until_ms = self._throttled_until_ms[address]
            await wait_until(self._clock, until_ms)
            if self._throttled_until_ms.get(address) == until_ms:
                del self._throttled_until_ms[address]

    async def send(
        self,
        address: Address,
        request: Message,
        client_versions: Versions,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Send a request that the broker at `address` does not answer, such as Produce with acks=0.

        Raises UnreachableError if the broker cannot be reached. `timeout_s` is that of `ask`.
        """
        async with _time_limit(address, timeout_s):
            connection = await self._connection(address)
            await self._wait_for_quota(address)
            connection.send_unanswered(request, client_versions)
            await connection.drain()

    async def _connection(self, address: Address) -> Connection:
        async with self._connect_locks[address]:
            connection = self._connections.get(address)
            if connection is None or connection.is_lost:
                timeout_s = min(SETUP_TIMEOUT_S, self._response_timeout_s or SETUP_TIMEOUT_S)
                connection = await Connection.open(
                    address,
                    self._access,
                    timeout_s=timeout_s,
                    with_versions=True,
                    is_admitted=address in self._admitting,
                )
                self._connections[address] = connection
            return connection


@asynccontextmanager
async def _time_limit(address: Address, timeout_s: float | None) -> AsyncIterator[None]:
    """Limit the time of a request; raises UnreachableError after it."""
    if timeout_s is not None and timeout_s <= 0:
        raise UnreachableError(f"no time remains to ask the broker at {address}")
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise UnreachableError(
            f"the broker at {address} does not answer in the remaining {timeout_s or 0:g} s"
        ) from error
