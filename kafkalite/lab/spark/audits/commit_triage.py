"""Splits commits into those to check one by one and those that only need to be counted.

Nearly every commit is accepted at its member's epoch or its group's generation. The tasks that read
commits know the intervals in which members and groups certainly had an epoch or generation, and
count matching commits immediately. About one commit in a thousand remains to be checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.audits.classic import GENERATION, SIMPLE, UNKNOWN
from kafkalite.lab.spark.audits.commit_checks import BY_EPOCH
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.commits import COMMITS, outcomes, project_commits, with_outcomes
from kafkalite.lab.spark.state.epochs import EPOCHS
from kafkalite.lab.spark.state.generations import GENERATIONS
from kafkalite.lab.spark.state.membership_spans import FOREVER, epoch_intervals, is_covered
from kafkalite.lab.spark.state.tables import Column, Table

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

    Bools = npt.NDArray[np.bool_]

_KINDS: Final = (BY_EPOCH, GENERATION, SIMPLE, UNKNOWN)
"""Values of `commit_kind`, in the order of the conditions in `triage`."""
_HOUR_US: Final = 3_600_000_000
_MAX_INTERVALS: Final = 1 << 20
"""Limit of intervals sent to each task; the longest are sent. Other commits are checked."""

TRIAGED = Table(
    "triaged_commits",
    "A commit to check; if commit_kind is set, the number of a group's other commits in one hour",
    (
        *COMMITS.columns,
        Column("commit_kind", "string", "epoch, generation, simple or unknown: see fencing_totals"),
        Column("commits", "bigint", "number of counted requests; null for a commit to check"),
        Column(
            "refused",
            "bigint",
            "of these, requests of which the broker refused at least one partition",
        ),
    ),
)
_COUNT_COLUMNS: Final = pa.schema(
    [("commit_kind", pa.string()), ("commits", pa.int64()), ("refused", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """Known state of groups, collected before their commits are read."""

    with_epochs: pa.Array
    """Groups that have members with epochs."""
    with_generations: pa.Array
    """Classic groups whose generations are in the capture."""
    member_intervals: pa.Table
    """Intervals in which members certainly had one epoch."""
    group_intervals: pa.Table
    """Intervals in which classic groups certainly had a generation and accepted commits."""


def triage_commits(requests: Requests) -> DataFrame:
    """Return all commits as `TRIAGED`."""
    known = _collect_known_groups(requests.state(EPOCHS.name), requests.state(GENERATIONS.name))
    return TRIAGED.shape(
        project_commits(requests.window, partial(triage, known=known), _COUNT_COLUMNS)
    )


def commits_to_check(requests: Requests) -> DataFrame:
    """Return the commits to check, as `COMMITS` with the columns of `with_outcomes`."""
    to_check = COMMITS.shape(requests.state(TRIAGED.name).where("commit_kind is null"))
    return with_outcomes(to_check)


def counted_commits(requests: Requests) -> DataFrame:
    """Return the number of commits that need no check, by kind, group and hour."""
    return requests.state(TRIAGED.name).where("commit_kind is not null")


_MEMBER: Final = ("group_id", "member_id", "commit_epoch")
_GROUP: Final = ("group_id", "commit_epoch")
_INTERVAL: Final = ("from_us", "until_us")


def _collect_known_groups(epochs: DataFrame, generations: DataFrame) -> KnownGroups:
    """Collect the known state; it is small enough for one query."""
    members = epoch_intervals(epochs).select(
        f.lit(BY_EPOCH).alias("kind"),
        f.col("interval_group_id").alias("group_id"),
        f.col("interval_member_id").alias("member_id"),
        f.col("interval_epoch").alias("commit_epoch"),
        *_INTERVAL,
    )
    groups = generations.where("assigned_latest_us is not null").select(
        f.lit(GENERATION).alias("kind"),
        "group_id",
        f.lit("").alias("member_id"),
        f.col("generation").alias("commit_epoch"),
        f.greatest("earliest_us", "latest_us", "assigned_latest_us").alias("from_us"),
        f.least("next_earliest_us", "reused_us", f.lit(FOREVER)).alias("until_us"),
    )
    longest = (
        members.unionByName(groups).orderBy(f.expr("from_us - until_us")).limit(_MAX_INTERVALS)
    )
    intervals = longest.toArrow()
    return KnownGroups(
        with_epochs=_group_ids(epochs),
        with_generations=_group_ids(generations),
        member_intervals=intervals.filter(pc.equal(intervals["kind"], BY_EPOCH)).select(
            [*_MEMBER, *_INTERVAL]
        ),
        group_intervals=intervals.filter(pc.equal(intervals["kind"], GENERATION)).select(
            [*_GROUP, *_INTERVAL]
        ),
    )


def _group_ids(frame: DataFrame) -> pa.Array:
    return frame.select("group_id").distinct().toArrow()["group_id"].combine_chunks()


def triage(rows: pa.Table, known: KnownGroups) -> pa.Table:
    """Replace the commits that need no check by counts; keep the others."""
    is_accepted, is_refused, is_answered = outcomes(rows["response_topics"])
    group, member = rows["group_id"], pc.fill_null(rows["member_id"], "")
    is_simple = _all_true(pc.equal(member, ""), pc.less(pc.fill_null(rows["commit_epoch"], -1), 0))
    is_classic = ~_all_true(pc.is_in(group, known.with_epochs))
    has_generations = _all_true(pc.is_in(group, known.with_generations))
    kind = np.select(
        [
            is_accepted & is_covered(rows, known.member_intervals, _MEMBER),
            is_accepted & is_classic & ~is_simple & is_covered(rows, known.group_intervals, _GROUP),
            is_answered & is_simple,
            is_answered & is_classic & ~has_generations,
        ],
        range(len(_KINDS)),
        -1,
    )
    hour = np.asarray(rows["start_us"]) // _HOUR_US * _HOUR_US
    commits = pa.table(
        {
            "group_id": group,
            "start_us": hour,
            "kind": kind,
            "refused": is_refused.astype(np.int64),
        }
    )
    sums = (
        commits.filter(pa.array(kind >= 0))
        .group_by(["group_id", "start_us", "kind"], use_threads=False)
        .aggregate([([], "count_all"), ("refused", "sum")])
    )
    counts = pa.table(
        {
            "group_id": sums["group_id"],
            "start_us": sums["start_us"],
            "commit_kind": pa.array(_KINDS).take(sums["kind"]),
            "commits": sums["count_all"],
            "refused": sums["refused_sum"],
        }
    )
    return pa.concat_tables([rows.filter(pa.array(kind < 0)), counts], promote_options="default")


def _all_true(*conditions: pa.ChunkedArray) -> Bools:
    mask: Bools = np.logical_and.reduce([np.asarray(condition) for condition in conditions])
    return mask
