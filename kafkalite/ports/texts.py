"""Parts of texts for people: numbers with their nouns."""

from __future__ import annotations


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def truncate(text: str, max_length: int) -> str:
    """Return at most `max_length` characters of a text; a cut one ends with an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def times_text(times: int) -> str:
    """Return a number of occurrences as text."""
    return "once" if times == 1 else f"{times:,} times"
