"""Metadata: the cached metadata of a client, which is never replaced by outdated metadata."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.cluster_metadata import NO_METADATA, ClusterMetadata
from kafkalite.client.connection import UnreachableError
from kafkalite.client.retries import DEFAULT_BACKOFF, Backoff, remaining_s, wait_until
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.cluster_metadata import PartitionMetadata, RequiredMetadata
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.ports.clock import Clock
    from kafkalite.server.addresses import Address

_VERSIONS: Final = Versions(4, 12)
"""Versions of Metadata in which topics can be requested by name; from 9 on, with tagged fields."""
DEFAULT_MAX_AGE_MS: Final = 300_000
_NOTHING_REQUIRED: Final[dict[TopicPartition, RequiredMetadata]] = {}


class MetadataAttempt(NamedTuple):
    """The broker to ask next, and the time before which it is not asked."""

    address: Address
    at_ms: int


class MetadataRefresh:
    """One refresh of the metadata, without I/O.

    Each attempt asks another broker, because the same broker would probably give the same answer.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        is_outdated: Callable[[ClusterMetadata], bool],
        *,
        backoff: Backoff,
        now_ms: int,
        deadline_ms: int,
    ) -> None:
        """Begin a refresh; `addresses` are the known brokers in the order in which they are asked.

        The first attempt is made at once, even if the deadline has passed.
        """
        self._addresses = list(dict.fromkeys(addresses))
        self._is_outdated = is_outdated
        self._backoff = backoff
        self._deadline_ms = deadline_ms
        self._next_ms = now_ms
        self._attempts = 0
        self.failure = "no broker is known"
        """The reason why the latest attempt failed."""

    def next_attempt(self) -> MetadataAttempt | None:
        """Return the next attempt; None if there is no time for it."""
        if not self._addresses or (self._attempts and self._next_ms >= self._deadline_ms):
            return None
        return MetadataAttempt(self._address, self._next_ms)

    @property
    def _address(self) -> Address:
        return self._addresses[self._attempts % len(self._addresses)]

    def accept(self, response: ClusterMetadata, now_ms: int) -> bool:
        """Return whether the response of this attempt ends the refresh.

        Otherwise it is outdated, but the brokers in it are asked too.
        """
        if not self._is_outdated(response):
            return True
        self.fail(f"the metadata of the broker at {self._address} is outdated", now_ms)
        for address in response.brokers.values():
            if address not in self._addresses:
                self._addresses.append(address)
        return False

    def fail(self, reason: str, now_ms: int) -> None:
        """Record that this attempt failed."""
        self.failure = reason
        self._attempts += 1
        self._next_ms = now_ms + self._backoff.delay_ms(self._attempts)


class Metadata:
    """The brokers, leaders and epochs that a client knows.

    A response that is outdated for a partition of interest is rejected, and another broker is
    asked. See `ClusterMetadata.is_outdated`.
    """

    def __init__(
        self,
        client: KafkaClient,
        clock: Clock,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_age_ms: int = DEFAULT_MAX_AGE_MS,
    ) -> None:
        self._client = client
        self._clock = clock
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._received_ms = 0
        self._topics: set[str] = set()
        self._partitions: frozenset[TopicPartition] | None = None
        self._lock = asyncio.Lock()
        self._requested_topics: frozenset[str] = frozenset()
        """The topics in the request whose response is cached."""
        self._refreshes = 0
        self.current = NO_METADATA
        """The newest metadata that was received."""
        self.failure = "no metadata was requested"
        """The reason why the latest refresh failed."""
        self.outdated_responses = 0
        """The number of responses that were rejected."""

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return the metadata of a partition; None if it is unknown."""
        return self.current.partitions.get(partition)

    @property
    def has_new_topics(self) -> bool:
        """Whether topics were added that no request has contained yet."""
        return not self._topics <= self._requested_topics

    @property
    def must_refresh(self) -> bool:
        """Whether metadata is missing, or is older than the maximum age."""
        age_ms = self._clock.now_ms() - self._received_ms
        return self.has_new_topics or age_ms > self._max_age_ms

    def leader_address(self, partition: TopicPartition) -> Address | None:
        """Return the address of the leader; None if there is none, or it is unknown."""
        known = self.partition(partition)
        return None if known is None else self.current.brokers.get(known.leader)

    def add_topic(self, topic: str) -> None:
        """Request a topic from now on; all its partitions are of interest."""
        self._topics.add(topic)

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Request the topics of these partitions from now on; only they are of interest."""
        self._partitions = frozenset(partitions)
        self._topics = {partition.topic for partition in self._partitions}

    def addresses(self, number: int) -> list[Address]:
        """Return the known brokers and the bootstrap addresses, in an order that `number` rotates.

        Consecutive numbers begin with different brokers.
        """
        known = list(dict.fromkeys((*self.current.brokers.values(), *self._client.bootstrap)))
        start = number % len(known)
        return known[start:] + known[:start]

    async def refresh(
        self,
        deadline_ms: int,
        required: Mapping[TopicPartition, RequiredMetadata] = _NOTHING_REQUIRED,
        *,
        replacing: ClusterMetadata | None = None,
        request_deadline_ms: int | None = None,
    ) -> bool:
        """Request metadata until it is not outdated; return whether that succeeded in time.

        The metadata is at least as new as the cached metadata and as the required epochs. Each
        request ends at `request_deadline_ms`, which is `deadline_ms` if it is None. If another task
        has replaced the metadata `replacing` meanwhile, no request is sent.
        """
        if request_deadline_ms is None:
            request_deadline_ms = deadline_ms
        async with self._lock:
            if replacing is not None and self.current is not replacing:
                return True
            refresh = MetadataRefresh(
                self.addresses(self._refreshes),
                lambda response: self._is_outdated(response, required),
                backoff=self._backoff,
                now_ms=self._clock.now_ms(),
                deadline_ms=deadline_ms,
            )
            self._refreshes += 1
            while (attempt := refresh.next_attempt()) is not None:
                await wait_until(self._clock, attempt.at_ms)
                topics = frozenset(self._topics)
                try:
                    response = await self._request(attempt.address, topics, request_deadline_ms)
                except UnreachableError as error:
                    refresh.fail(str(error), self._clock.now_ms())
                    continue
                if refresh.accept(response, self._clock.now_ms()):
                    self._store(response, topics)
                    return True
                self.outdated_responses += 1
            self.failure = refresh.failure
            return False

    async def ask_all(self, deadline_ms: int) -> list[ClusterMetadata]:
        """Ask all known brokers, cache the newest metadata, and return all answers in time.

        A single broker can have outdated metadata that equals the cached metadata.
        """
        async with self._lock:
            topics = frozenset(self._topics)
            requests = [
                self._request(address, topics, deadline_ms) for address in self.addresses(0)
            ]
            responses = await asyncio.gather(*requests, return_exceptions=True)
            answers = []
            for response in responses:
                if isinstance(response, ClusterMetadata):
                    answers.append(response)
                    if not self._is_outdated(response, _NOTHING_REQUIRED):
                        self._store(response, topics)
                elif not isinstance(response, UnreachableError):
                    raise response
            return answers

    def _store(self, response: ClusterMetadata, topics: frozenset[str]) -> None:
        self.current = response
        self._requested_topics = topics
        self._received_ms = self._clock.now_ms()

    def _is_outdated(
        self, response: ClusterMetadata, required: Mapping[TopicPartition, RequiredMetadata]
    ) -> bool:
        return response.is_outdated(self.current, self._partitions) or bool(
            response.partitions_older_than(required)
        )

    async def _request(
        self, address: Address, topics: frozenset[str], deadline_ms: int
    ) -> ClusterMetadata:
        response = await self._client.metadata(
            sorted(topics),
            at=address,
            client_versions=_VERSIONS,
            timeout_s=remaining_s(self._clock, deadline_ms),
        )
        return ClusterMetadata.parse(response)
