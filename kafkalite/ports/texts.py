"""Parts of texts for people: numbers with their nouns."""

from __future__ import annotations


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def times_text(times: int) -> str:
    """Return a number of occurrences as text."""
    return "once" if times == 1 else f"{times:,} times"
