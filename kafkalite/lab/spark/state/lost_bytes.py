"""The times in which a capture lost bytes, by the requests before and after each gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.checker.history import Loss, Range, merged
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.windows import rows_up_to_current
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND

if TYPE_CHECKING:
    from kafkalite.lab.spark.requests import Requests

_END_NS: Final = (1 << 63) - 1


def lost_bytes(requests: Requests) -> list[Loss]:
    """Return the times of all gaps, in order; times that overlap are one.

    A problem has no time, only a place in its file. So the time begins with the last request on the
    connection before the gap, and ends with the next request of any connection in the file. It
    has no start or end without such a request.
    """
    gaps = (
        requests.problems()
        .where(f.col("kind") == ProblemKind.GAP.value)
        .select("file", "connection", f.coalesce("offset", f.lit(-1)).alias("offset"))
        .distinct()
    )
    if gaps.isEmpty():
        return []
    sent = requests.envelopes().select(
        "file",
        f.concat("client", f.lit(" > "), "broker").alias("connection"),
        "offset",
        f.unix_micros("ts").alias("at_us"),
        f.lit(0).alias("is_gap"),
    )
    rows = sent.join(f.broadcast(gaps.select("file").distinct()), "file", "semi").unionByName(
        gaps.withColumns({"at_us": f.lit(None).cast("bigint"), "is_gap": f.lit(1)})
    )
    before = rows_up_to_current(("file", "connection"), ("offset", "is_request"))
    after = rows_up_to_current(("file",), ("back", "is_gap"))
    times = (
        rows.withColumns({"back": -f.col("offset"), "is_request": f.lit(1) - f.col("is_gap")})
        .withColumns(
            {
                "from_us": f.max("at_us").over(before),
                "until_us": f.last("at_us", ignorenulls=True).over(after),
            }
        )
        .where("is_gap = 1")
        .select("from_us", f.when(f.col("offset") >= 0, f.col("until_us")).alias("until_us"))
        .collect()
    )
    lost = merged(
        Range(*sorted((_nanoseconds(row.from_us, 0), _nanoseconds(row.until_us, _END_NS))))
        for row in times
    )
    return [Loss(each.first, each.last) for each in lost]


def _nanoseconds(at_us: int | None, default: int) -> int:
    return default if at_us is None else at_us * NANOSECONDS_PER_MICROSECOND
