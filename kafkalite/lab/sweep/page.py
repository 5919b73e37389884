"""The results of a sweep as one HTML page, which loads nothing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kafkalite.lab.sweep.report import repeating_line, shown, summary, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.sweep.sweep import CaseResult, SweepOptions

_TEMPLATE = "page.html.j2"


def html_page(results: Sequence[CaseResult], options: SweepOptions, total: int) -> str:
    """Return a page with the table, and the reasons and the time line of each finding."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    header, rows = table(results)
    return environment.get_template(_TEMPLATE).render(
        command=shlex.join(options.command),
        summary=summary(results, total),
        header=header,
        rows=rows,
        results=[(each, repeating_line(each, options)) for each in shown(results)],
    )
