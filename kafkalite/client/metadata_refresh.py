"""MetadataRefresh: asks brokers in turn until one answers with metadata that is not outdated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.client.cluster_metadata import ClusterMetadata
    from kafkalite.client.retries import Backoff
    from kafkalite.server.addresses import Address


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
