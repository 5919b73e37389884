"""Repeats: limits the repetitions of an entity in one request, for APIs with large answers.

A group with thousands of members is named in a few bytes; a request that names it ten thousand
times would need an answer of gigabytes. Kafka answers each time; here a few repeats are answered,
and the others are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable

MAX_REPEATS = 10
"""Maximum number of repeats in one request that are answered, over all entities."""


_SETS = 64


class Repeats:
    """The entities that one request has named so far."""

    __slots__ = ("_count", "_named")

    def __init__(self) -> None:
        # Many small sets, because a large set blocks the event loop when it grows.
        self._named: tuple[set[Hashable], ...] = tuple(set() for _ in range(_SETS))
        self._count = 0

    def are_within_limits(self, entity: Hashable) -> bool:
        """Count an entity; return False if there are too many repeats."""
        named = self._named[hash(entity) % _SETS]
        if entity not in named:
            named.add(entity)
            return True
        self._count += 1
        return self._count <= MAX_REPEATS

    def check(self, entity: Hashable) -> None:
        """Count an entity; raises KafkaError INVALID_REQUEST if there are too many repeats."""
        if not self.are_within_limits(entity):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"More than {MAX_REPEATS} repeated entries in one request.",
            )
