"""Named transactional producers, each with one call at a time; see `drivers.protocol.serve`.

Drivers in other languages have the same calls. A failed call returns the client's exception.
"""

from __future__ import annotations

from typing import Protocol


class Producers(Protocol):
    """Producers of one client library."""

    def init(
        self, name: str, transactional_id: str, timeout_ms: int, request_timeout_ms: int
    ) -> None:
        """Create a producer and initialise its transactions.

        `timeout_ms` is the timeout of a transaction.
        """

    def begin(self, name: str) -> None:
        """Begin a transaction."""

    def send(self, name: str, topic: str, value: str) -> None:
        """Write a record to partition 0, and wait until it is acknowledged."""

    def commit(self, name: str) -> None:
        """Commit the transaction."""

    def abort(self, name: str) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """End."""
