"""Files of JSON with a list of partitions, which several tools read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import ToolError, file_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TYPES: Final[Mapping[str, type]] = {
    "topic": str,
    "partition": int,
    "offset": int,
    "replicas": list,
}


def partitions_of(
    path: str, environment: Mapping[str, str], keys: Sequence[str] = ("topic", "partition")
) -> list[dict[str, Any]]:
    """Return the objects of the list `partitions`, which have these keys; raises ToolError."""
    rows = json_object(file_text(path, environment), path).get("partitions")
    if not isinstance(rows, list):
        raise ToolError(f"{path} has no list partitions")
    for row in rows:
        for key in keys:
            if not isinstance(row, dict) or not isinstance(row.get(key), _TYPES[key]):
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
