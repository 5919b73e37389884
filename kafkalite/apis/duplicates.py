"""Duplicates in requests: `DuplicateLimit` limits them, `without_duplicates` skips them.

The limit is for APIs with large answers. The name of a group takes a few bytes, but its description
can have thousands of members. A request that names the group ten thousand times would need an
answer of gigabytes. Kafka answers each time; here a few duplicates are answered, and the others are
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkalite.ports.turns import in_steps
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

T = TypeVar("T", bound="Hashable")

MAX_DUPLICATES = 10
"""Maximum number of duplicates in one request that are answered, over all entities."""

_SET_COUNT = 64


class DuplicateLimit:
    """The entities that one request has named until now, and the number of duplicates."""

    __slots__ = ("_duplicates", "_seen")

    def __init__(self) -> None:
        self._seen = _new_sets()
        self._duplicates = 0

    def allows(self, entity: Hashable) -> bool:
        """Count an entity; return False if there are too many duplicates."""
        seen = self._seen[hash(entity) % _SET_COUNT]
        if entity not in seen:
            seen.add(entity)
            return True
        self._duplicates += 1
        return self._duplicates <= MAX_DUPLICATES

    def check(self, entity: Hashable) -> None:
        """Count an entity; raises KafkaError INVALID_REQUEST if there are too many duplicates."""
        if not self.allows(entity):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"More than {MAX_DUPLICATES} repeated entries in one request.",
            )


def without_duplicates(elements: Collection[T]) -> Iterator[T]:
    """Yield each element once, in the order of their first occurrences, with pauses in between."""
    seen = _new_sets()
    for element in in_steps(elements):
        elements_with_hash = seen[hash(element) % _SET_COUNT]
        if element not in elements_with_hash:
            elements_with_hash.add(element)
            yield element


def _new_sets() -> tuple[set[Hashable], ...]:
    """Return sets for elements; the hash selects one.

    Many small sets, because a large set blocks the event loop when it grows.
    """
    return tuple(set() for _ in range(_SET_COUNT))
