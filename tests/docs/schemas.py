"""The schemas of compose files and of CI systems, which check-jsonschema contains."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema.validators import validator_for

_CONTROL_CHARACTERS = r"\\p{Cc}"
"""A class of characters that Python's regular expressions do not have, in a schema."""


@cache
def _validator(schema_name: str) -> Any:  # noqa: ANN401 - the class depends on the schema
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / schema_name
    text = vendored.read_text(encoding="utf-8")
    schema = json.loads(text.replace(_CONTROL_CHARACTERS, r"\\x00-\\x1f"))
    validator = validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


def validate(content: object, schema_name: str) -> None:
    """Raise ValidationError if content breaks a schema with a name such as `compose-spec.json`."""
    _validator(schema_name).validate(content)
