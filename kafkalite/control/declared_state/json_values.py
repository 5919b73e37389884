"""Checks of JSON values that a declared state cannot have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import is_unicode, quote
from kafkalite.control.declared_state.shape import MisplacedError
from kafkalite.control.positioned_yaml import MAX_NUMBER_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.control.declared_state.shape import Path

_MAX_DEPTH: Final = 100
_SHOWN_STEPS: Final = 5


def unique_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with these members; raises ValueError for a name that is given twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{quote(name)} is given twice")
        found[name] = value
    return found


def check_json(path: Path, value: object) -> None:
    """Raise MisplacedError if the value at a path is too deep, or has an invalid text or number.

    A text with a lone surrogate, which JSON may have, cannot be sent to a broker.
    """
    pending: list[tuple[Path, int, object]] = [(path, 0, value)]
    while pending:
        place, depth, each = pending.pop()
        if isinstance(each, str) and not is_unicode(each):
            raise MisplacedError(place, "a text has a lone surrogate, which is not a character")
        if isinstance(each, int) and each.bit_length() > MAX_NUMBER_BITS:
            raise MisplacedError(place, f"a number must be below 2^{MAX_NUMBER_BITS}")
        if depth >= _MAX_DEPTH and isinstance(each, dict | list):
            raise MisplacedError(
                place[: len(path) + _SHOWN_STEPS],
                f"lists and objects may be in each other up to {_MAX_DEPTH} levels deep",
            )
        if isinstance(each, dict):
            pending += [(place, depth, name) for name in each]
            pending += [((*place, name), depth + 1, inner) for name, inner in each.items()]
        elif isinstance(each, list):
            pending += [((*place, index), depth + 1, inner) for index, inner in enumerate(each)]
