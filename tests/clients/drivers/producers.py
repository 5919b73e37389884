"""Transactional producers under names, each told one call at a time; see `drivers.protocol.serve`.

Drivers in other languages do the same. A call that fails is answered by what the client raised.
"""

from __future__ import annotations

from typing import Protocol


class Producers(Protocol):
    """Producers of one client library."""

    def init(self, name: str, transactional_id: str, timeout_ms: int) -> None:
        """Make a producer and have it initialise its transactions."""

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
