"""Repeats: how often one request may ask for the same thing, where the answer can be much larger.

A group of thousands of members is named in a few bytes; a request that named it ten thousand times
would be answered with gigabytes. Kafka answers each time; here a few repeats are answered too, and
the others refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_REPEATS = 10
"""Repeats in one request that are answered, of all that it names together."""


class Repeats:
    """What one request has asked for so far."""

    __slots__ = ("_asked", "_count")

    def __init__(self) -> None:
        self._asked: set[Hashable] = set()
        self._count = 0

    def are_within_limits(self, asked: Hashable) -> bool:
        """Take note of what is asked for; False for a repeat too many."""
        if asked not in self._asked:
            self._asked.add(asked)
            return True
        self._count += 1
        return self._count <= MOST_REPEATS

    def check(self, asked: Hashable) -> None:
        """Take note of what is asked for; KafkaError(INVALID_REQUEST) for a repeat too many."""
        if not self.are_within_limits(asked):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"This was asked for before, as were {MOST_REPEATS} others in the same request.",
            )
