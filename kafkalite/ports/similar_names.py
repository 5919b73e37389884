"""Names that resemble an unknown name, for errors about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_NAMES: Final = 2_000
_MAX_COMPARED: Final = 100
"""The event loop waits while names are compared, for milliseconds."""
_MAX_LENGTH: Final = 249
_MAX_SIMILAR: Final = 3


def similar_names_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name, with at most three similar names.

    It is empty without a similar name. Only 100 of the first 2,000 names, with the most similar
    beginnings and lengths, are compared as a whole, because that takes long.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only
    from heapq import nlargest  # noqa: PLC0415 - as above
    from itertools import islice  # noqa: PLC0415 - as above

    unknown = name[:_MAX_LENGTH]
    compared = nlargest(
        _MAX_COMPARED,
        islice(known, _MAX_NAMES),
        key=lambda each: (_common_beginning(unknown, each), -abs(len(unknown) - len(each))),
    )
    similar = get_close_matches(unknown, compared, n=_MAX_SIMILAR)
    return f"; similar names are {', '.join(similar)}" if similar else ""


def _common_beginning(one: str, other: str) -> int:
    """Return the number of equal characters at the beginning."""
    length = min(len(one), len(other))
    return next((index for index in range(length) if one[index] != other[index]), length)
