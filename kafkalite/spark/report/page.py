"""Sections to one HTML page that needs nothing else: no network, no script, light and dark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafkalite.spark.report.words import legible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.spark.report.model import Section

_TEMPLATE = "page.html.j2"


def render(
    sections: Sequence[Section],
    summary: Mapping[str, str],
    problems: Sequence[Mapping[str, Any]],
) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    environment.filters["words"] = lambda name: name.replace("_", " ")
    # Plots are ours, and escape what they are given.
    environment.filters["svg"] = Markup
    template = environment.get_template(_TEMPLATE)
    return template.render(sections=sections, summary=summary, problems=problems)


def cell(value: object) -> str:
    """Write a value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return legible(str(value))
