"""Records for the scenarios: readable, distinct, some without key or value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.clients.drivers.protocol import SentRow

_WORDS = ("alpha", "büro", "γάμμα", "дельта", "エプシロン", "zeta zeta zeta zeta", "η" * 40)


def some_records(count: int, partitions: int, start: int = 0) -> list[SentRow]:
    """Return records numbered from `start`, for the partitions in turn.

    Every tenth has no key, every hundred-and-first no value. None lacks both, because a tombstone
    without a key is meaningless.
    """
    return [_record(number, partitions) for number in range(start, start + count)]


def _record(number: int, partitions: int) -> SentRow:
    key = None if number % 10 == 3 else f"key-{number % 257}"
    is_tombstone = number % 101 == 100 and key is not None
    word = _WORDS[number % len(_WORDS)]
    value = None if is_tombstone else f"{number}:{word}:{word.upper()}"
    return number % partitions, key, value
