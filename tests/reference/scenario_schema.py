"""The JSON Schema of scenarios."""

from __future__ import annotations

import json

from kafkalite.control.openapi import json_schema
from kafkalite.control.scenario import Scenario


def scenario_schema_text() -> str:
    """Return the schema as text."""
    return f"{json.dumps(json_schema(Scenario), indent=1, ensure_ascii=False)}\n"
