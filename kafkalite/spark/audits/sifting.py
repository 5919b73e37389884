"""Commits in doubt, apart from those of which there is nothing to say but how many they are.

Nearly every commit is at its member's epoch or its group's generation, and taken. The tasks that
read commits are told when members and groups certainly were at which, and count these where they
are: what is left to be judged is a few in a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from kafkalite.spark.audits.classic import GENERATION, SIMPLE, UNKNOWN
from kafkalite.spark.audits.judging import BY_EPOCH
from kafkalite.spark.state.commits import COMMITS, narrowed, outcomes, with_outcomes
from kafkalite.spark.state.epochs import EPOCHS
from kafkalite.spark.state.generations import GENERATIONS
from kafkalite.spark.state.spells import FOREVER, covered, spells
from kafkalite.spark.state.tables import Column, Table

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

    Bools = npt.NDArray[np.bool_]

_KINDS: Final = (BY_EPOCH, GENERATION, SIMPLE, UNKNOWN)
_HOUR_US: Final = 3_600_000_000
_MOST: Final = 1 << 20
"""So many spells are told to each task, the longest: what is beside them is judged one by one."""

SIFTED = Table(
    "sifted_commits",
    "A commit in doubt; or, where `fenced_by` is told, how many of a group's in an hour are not",
    (
        *COMMITS.columns,
        Column("fenced_by", "string", "epoch, generation, simple or unknown: see fencing_totals"),
        Column("commits", "bigint", "the requests that are counted; null for one in doubt"),
        Column("refused", "bigint", "those of them of which the broker refused a partition"),
    ),
)
_ADDED: Final = pa.schema(
    [("fenced_by", pa.string()), ("commits", pa.int64()), ("refused", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of groups before their commits are read."""

    with_epochs: pa.Array
    """Groups that had members with epochs."""
    with_generations: pa.Array
    of_members: pa.Table
    """Spells: when members with epochs certainly were at one."""
    of_groups: pa.Table
    """When classic groups certainly were at a generation, and took commits."""


def sifted(requests: Requests) -> DataFrame:
    """Return all commits as `SIFTED`."""
    known = _known(requests.state(EPOCHS.name), requests.state(GENERATIONS.name))
    return SIFTED.shape(narrowed(requests, partial(sift, known=known), _ADDED))


def in_doubt(requests: Requests) -> DataFrame:
    """Return the commits that are to be judged, as `COMMITS`, and whether they were taken."""
    rest = COMMITS.shape(requests.state(SIFTED.name).where("fenced_by is null"))
    return with_outcomes(rest)


def counted(requests: Requests) -> DataFrame:
    """Return how many others there are, of each kind of each group in each hour."""
    return requests.state(SIFTED.name).where("fenced_by is not null")


_MEMBER: Final = ("group_id", "member_id", "commit_epoch")
_GROUP: Final = ("group_id", "commit_epoch")
_SPELL: Final = ("from_us", "until_us")


def _known(epochs: DataFrame, generations: DataFrame) -> Known:
    """Collect what is known; in one query, for it is little."""
    members = spells(epochs).select(
        f.lit(BY_EPOCH).alias("kind"),
        f.col("in_group").alias("group_id"),
        f.col("of_member").alias("member_id"),
        f.col("at_epoch").alias("commit_epoch"),
        *_SPELL,
    )
    groups = generations.where("assigned_done_us is not null").select(
        f.lit(GENERATION).alias("kind"),
        "group_id",
        f.lit("").alias("member_id"),
        f.col("generation").alias("commit_epoch"),
        f.greatest("begin_us", "done_us", "assigned_done_us").alias("from_us"),
        f.least("next_begin_us", "again_us", f.lit(FOREVER)).alias("until_us"),
    )
    longest = members.unionByName(groups).orderBy(f.expr("from_us - until_us")).limit(_MOST)
    told = longest.toArrow()
    return Known(
        with_epochs=_groups(epochs),
        with_generations=_groups(generations),
        of_members=told.filter(pc.equal(told["kind"], BY_EPOCH)).select([*_MEMBER, *_SPELL]),
        of_groups=told.filter(pc.equal(told["kind"], GENERATION)).select([*_GROUP, *_SPELL]),
    )


def _groups(told: DataFrame) -> pa.Array:
    return told.select("group_id").distinct().toArrow()["group_id"].combine_chunks()


def sift(rows: pa.Table, known: Known) -> pa.Table:
    """Count the commits of which nothing else is to be said, and leave the others."""
    is_taken, is_refused, is_told = outcomes(rows["answered"])
    group, member = rows["group_id"], pc.fill_null(rows["member_id"], "")
    is_simple = _all(pc.equal(member, ""), pc.less(pc.fill_null(rows["commit_epoch"], -1), 0))
    is_classic = ~_all(pc.is_in(group, known.with_epochs))
    is_heard_of = _all(pc.is_in(group, known.with_generations))
    kind = np.select(
        [
            is_taken & covered(rows, known.of_members, _MEMBER),
            is_taken & is_classic & ~is_simple & covered(rows, known.of_groups, _GROUP),
            is_told & is_simple,
            is_told & is_classic & ~is_heard_of,
        ],
        range(len(_KINDS)),
        -1,
    )
    hour = np.asarray(rows["start_us"]) // _HOUR_US * _HOUR_US
    told = pa.table(
        {
            "group_id": group,
            "start_us": hour,
            "kind": kind,
            "refused": is_refused.astype(np.int64),
        }
    )
    sums = (
        told.filter(pa.array(kind >= 0))
        .group_by(["group_id", "start_us", "kind"], use_threads=False)
        .aggregate([([], "count_all"), ("refused", "sum")])
    )
    counts = pa.table(
        {
            "group_id": sums["group_id"],
            "start_us": sums["start_us"],
            "fenced_by": pa.array(_KINDS).take(sums["kind"]),
            "commits": sums["count_all"],
            "refused": sums["refused_sum"],
        }
    )
    return pa.concat_tables([rows.filter(pa.array(kind < 0)), counts], promote_options="default")


def _all(*conditions: pa.ChunkedArray) -> Bools:
    every: Bools = np.logical_and.reduce([np.asarray(each) for each in conditions])
    return every
