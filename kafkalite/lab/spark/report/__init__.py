"""The HTML report of the audits: one self-contained page with a summary, plots and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.locations import Location

FILE: Final = "report.html"


def write_report(spark: SparkSession, out: Location, files: Collection[str]) -> None:
    """Read the audits' tables from `out`, and write the report to `report.html` there.

    `files` are the paths of all committed files.
    """
    # Imported here because the report needs jinja2, which a run without a report does not.
    from kafkalite.lab.spark.report import page, reading, sections  # noqa: PLC0415

    written = reading.tables(spark, out, files)
    rows = reading.query_tables(written)
    problems = reading.problems(spark, out, files)
    html = page.render(sections.sections(rows), _summary(written), problems)
    (out / FILE).write_text(html)


def _summary(written: dict[str, DataFrame]) -> dict[str, str]:
    """Return the facts below the page's title: counts, size and the audited time range."""
    from kafkalite.lab.spark.report import reading  # noqa: PLC0415 - see above

    if "load" not in written:
        return {}
    first, last = reading.time_range(written["load"])
    if first is None:
        return {"requests": "no"}
    totals = reading.totals(written["latency"])
    return {
        "requests": f"{totals['n']:,}",
        "APIs": f"{totals['apis']}",
        "of frames": f"{totals['b'] / 1e6:,.1f} MB",
        "UTC": f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}",
    }
