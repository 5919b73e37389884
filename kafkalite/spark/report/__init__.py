"""The audits for people: one page of HTML that opens anywhere and is read in two minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.places import Place

FILE: Final = "report.html"


def write_report(spark: SparkSession, out: Place) -> None:
    """Write the report of the audits' tables in `out` beside them."""
    # Imported here: only who wants a page needs what makes it.
    from kafkalite.spark.report import page, reading, sections  # noqa: PLC0415

    written = reading.tables(spark, out)
    rows = reading.found(written)
    html = page.render(sections.sections(rows), _summary(written), reading.problems(spark, out))
    (out / FILE).write_text(html)


def _summary(written: dict[str, DataFrame]) -> dict[str, str]:
    """Say in a line what was audited."""
    from kafkalite.spark.report import reading  # noqa: PLC0415 - see above

    if "load" not in written:
        return {}
    first, last = reading.extent(written["load"])
    if first is None:
        return {"requests": "no"}
    latency = written["latency"].selectExpr(
        "coalesce(sum(requests), 0) n", "coalesce(sum(bytes_in + bytes_out), 0) b", "count(1) apis"
    )
    told = latency.collect()[0]
    return {
        "requests": f"{told['n']:,}",
        "APIs": f"{told['apis']}",
        "of frames": f"{told['b'] / 1e6:,.1f} MB",
        "UTC": f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}",
    }
