"""WaitingBudget: the memory that requests of one kind may use while they wait at a node."""

from __future__ import annotations

from typing import Final

MAX_FORWARDED_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of the requests of one node that wait for the controller."""

MAX_VERIFIED_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of the requests of one node that wait for the end of a transaction."""


class WaitingBudget:
    """A limited number of bytes. Decoded requests take many times their size in memory."""

    __slots__ = ("free_bytes",)

    def __init__(self, max_bytes: int) -> None:
        self.free_bytes = max_bytes

    def take(self, size_bytes: int) -> bool:
        """Reserve the bytes of a request; return False, and reserve nothing, if they are not free.

        Each reservation ends with one call of `release`.
        """
        if size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Free the bytes of a request that does not wait any more."""
        self.free_bytes += size_bytes
