"""Files of JSON with a list of partitions, which several tools read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import ToolError, file_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1


def _is_integer(value: object, largest: int) -> bool:
    # JSON's true is an int in Python.
    return type(value) is int and -largest <= value <= largest


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "topic": lambda value: isinstance(value, str),
    "partition": lambda value: _is_integer(value, _MAX_INT32),
    "offset": lambda value: _is_integer(value, _MAX_INT64),
    "replicas": lambda value: (
        isinstance(value, list) and all(_is_integer(each, _MAX_INT32) for each in value)
    ),
}
"""Key of a partition → whether its value is valid."""


def partitions_of(
    path: str, environment: Mapping[str, str], keys: Sequence[str] = ("topic", "partition")
) -> list[dict[str, Any]]:
    """Return the objects of the list `partitions`, which have these keys; raises ToolError."""
    rows = json_object(file_text(path, environment), path).get("partitions")
    if not isinstance(rows, list):
        raise ToolError(f"{path} has no list partitions")
    for row in rows:
        for key in keys:
            if not isinstance(row, dict) or not _CHECKS[key](row.get(key)):
                raise ToolError(f"{path}: each of partitions needs a valid {key}")
    return rows


def json_object(text: str, title: str) -> dict[str, Any]:
    """Return an object of JSON; raises ToolError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{title} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ToolError(f"{title} is no object of JSON")
    return found
