"""The schemas of compose files and of CI systems, which check-jsonschema contains."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_CONTROL_CHARACTERS = r"\\p{Cc}"
"""A class of characters that Python's regular expressions do not have, in a schema."""


def schema_named(name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a schema by the name of its file, such as `compose-spec.json`."""
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / name
    text = vendored.read_text(encoding="utf-8")
    return json.loads(text.replace(_CONTROL_CHARACTERS, r"\\x00-\\x1f"))
