"""Names that resemble an unknown name, for errors about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_NAMES: Final = 500
"""The event loop waits while names are compared, for milliseconds."""
_MAX_LENGTH: Final = 249
_MAX_SIMILAR: Final = 3


def similar_names_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name, with at most three similar names.

    It is empty without a similar name. Only the first 500 names are compared, because that takes
    long.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only
    from itertools import islice  # noqa: PLC0415 - as above

    compared = list(islice(known, _MAX_NAMES))
    similar = get_close_matches(name[:_MAX_LENGTH], compared, n=_MAX_SIMILAR)
    return f"; similar names are {', '.join(similar)}" if similar else ""
