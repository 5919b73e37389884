"""The report as one self-contained HTML page, with a light and a dark theme. It loads nothing.

The charts are HTML. The page contains DataTables, which sorts and filters the tables; the package
itables brings it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafkalite.lab.spark.report.formatting import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.lab.spark.report.model import Section

_TEMPLATE = "page.html.j2"


def render(
    sections: Sequence[Section],
    summary: Mapping[str, str],
    problems: Sequence[Mapping[str, Any]],
) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    environment.filters["sort_key"] = sort_key
    environment.filters["spaced"] = lambda name: name.replace("_", " ")
    environment.filters["json"] = script_json
    return environment.get_template(_TEMPLATE).render(
        sections=sections,
        summary=summary,
        problems=problems,
        tables_js=_package_file("itables", "html/dt_bundle.js"),
        tables_css=_package_file("itables", "html/dt_bundle.css"),
    )


def to_json(
    sections: Sequence[Section],
    summary: Mapping[str, str],
    problems: Sequence[Mapping[str, Any]],
) -> str:
    """Return what the page shows as JSON, without charts."""
    shown = [
        {
            "name": section.name,
            "title": section.title,
            "tone": section.tone,
            "headline": section.headline,
            "detail": section.detail,
            "findings": [asdict(answer) for answer in section.answers],
            "time_lines": [
                {"title": timeline.title, "events": [asdict(event) for event in timeline.events]}
                for timeline in section.timelines
            ],
            "tables": [
                {
                    "title": table.title,
                    "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                }
                for table in section.listings
            ],
        }
        for section in sections
    ]
    content = {"summary": summary, "sections": shown, "problems": [*map(dict, problems)]}
    return json.dumps(content, default=str, indent=1)


def _package_file(package: str, name: str) -> str:
    """Return a file of a package, without importing the package, which takes 0.1 s or more."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return (Path(spec.origin).parent / name).read_text(encoding="utf-8")


def cell(value: object) -> str:
    """Return a table cell's text."""
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
    return escape_unprintable(str(value))


def sort_key(value: object) -> str:
    """Return the text by which a table sorts a cell: the exact value; empty for null."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def script_json(value: object) -> Markup:
    """Return JSON for a script element, in which no text can end the element."""
    return Markup(json.dumps(value).replace("<", "\\u003c"))  # noqa: S704 - escaped here
