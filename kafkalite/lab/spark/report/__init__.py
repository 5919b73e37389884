"""The report of the audits: a self-contained page with a summary, plots and tables, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite import __version__

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.locations import Location

FILE: Final = "report.html"
JSON_FILE: Final = "report.json"
_NAMED_INPUTS: Final = 3


def write_report(
    spark: SparkSession, out: Location, files: Collection[str], inputs: Collection[str] = ()
) -> None:
    """Read the audits' tables from `out`, and write the report to `report.html` there.

    `report.json` has the same. `files` are the paths of all committed files, and `inputs` the
    captures.
    """
    # Imported here because the report needs jinja2, which a run without a report does not.
    from kafkalite.lab.spark.report import page, reading, sections  # noqa: PLC0415

    written = reading.tables(spark, out, files)
    rows = reading.query_tables(written)
    problems = reading.problems(spark, out, files)
    found, summary = sections.sections(rows), _summary(written) | _origin(inputs)
    (out / JSON_FILE).write_text(page.to_json(found, summary, problems))
    (out / FILE).write_text(page.render(found, summary, problems))


def _origin(inputs: Collection[str]) -> dict[str, str]:
    """Return the facts about the captures, and the version that audited them."""
    names = sorted({url.rpartition("/")[2] for url in inputs})
    shown = ", ".join(names[:_NAMED_INPUTS])
    more = f" and {len(names) - _NAMED_INPUTS:,} more files" if len(names) > _NAMED_INPUTS else ""
    files = {"files": f"{shown}{more}"} if names else {}
    return files | {"version": f"kafkalite {__version__}"}


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
        "UTC": f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S}",
    }
