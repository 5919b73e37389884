"""Ghosts in groups (KIP-1082): members whose client is not there, or does not know that it is one.

A join whose answer is lost leaves a member behind that nobody speaks for, unless its client named
it: then the retry is the same member. A client that goes before it knows its member's id cannot
take its leave. Both stay until their session ends, and partitions wait for them so long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.state.assignments import ASSIGNMENTS, handed
from kafkalite.spark.state.extent import EXTENT
from kafkalite.spark.state.generations import GENERATIONS
from kafkalite.spark.state.holdings import HOLDINGS
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.signs import JOIN, SIGNS, SOMEBODY, SYNC_GROUP, is_over, somebody
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.turns import TURNS, may_change_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kafkalite.spark.requests import Requests

LOST_ANSWER: Final = "lost answer"
NEVER_CAME_BACK: Final = "never came back"
VANISHED: Final = "vanished"

GHOSTS = table(
    "ghosts",
    "A member without a client, from its last sign of life on",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty where only its coordinator knows its name"),
    ("protocol", "string", "consumer, streams or classic"),
    (
        "kind",
        "string",
        (
            "lost answer: its join was not answered, and it has no name of its own; "
            "never came back: its join was answered, and that was all; "
            "vanished: it had stayed for a while, and did not leave"
        ),
    ),
    ("client", "string", "whose it was: host:port"),
    ("client_id", "string", "and by which name"),
    ("last_sign", "timestamp", "when it was last heard of"),
    ("until", "timestamp", "when it was a member no more: put out, or where the capture ends"),
    ("ended_by", "string", "session timeout, or end of capture"),
    ("partitions_held", "bigint", "the partitions assigned to it"),
    ("partition_seconds_held", "double", "for how long in all nobody read those"),
    (
        "partition_seconds_kept_free",
        "double",
        (
            "for how long partitions that others had given up were given to nobody meanwhile; "
            "shared out evenly where ghosts were together in a group"
        ),
    ),
    ("would_own_id_save", "boolean", "whether an id made by its client had made it no ghost"),
)

TOTALS = table(
    "ghost_totals",
    "What ghosts of one kind cost",
    ("kind", "string", "as in ghosts"),
    ("would_own_id_save", "boolean", "whether ids made by clients had saved it"),
    ("ghosts", "bigint", "how many there were"),
    ("groups", "bigint", "in how many groups"),
    ("partition_seconds", "double", "how long partitions waited for them, held or kept free"),
)

_ORDER: Final = ("end_or_start_us", "start_us", "position")
_US: Final = 1_000_000


def members(requests: Requests, _: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    found = requests.state(GHOSTS.name)
    return {GHOSTS.name: found, TOTALS.name: totals(found)}


def haunting(requests: Requests, options: AuditOptions) -> DataFrame:
    """Return every ghost of a capture: the state that the audit adds up."""
    held = requests.state(HOLDINGS.name)
    if SYNC_GROUP in requests:
        given, generations = requests.state(ASSIGNMENTS.name), requests.state(GENERATIONS.name)
        turns = requests.state(TURNS.name) if may_change_over(requests) else None
        held = held.unionByName(held_classically(given, generations, turns))
    return ghosts(
        requests.state(SIGNS.name),
        held,
        requests.state(EXTENT.name),
        options.session_timeout_ms,
    )


def held_classically(
    given: DataFrame, generations: DataFrame, turns: DataFrame | None
) -> DataFrame:
    """Return what members of classic groups held, until such a group became another: `HOLDINGS`."""
    held = handed(given, generations)
    if turns is None:
        return held
    became = turns.where("came_with is not null").select(
        "in_group", "of_member", "came_with", f.col("from_us").alias("became_us")
    )
    is_its = "group_id = in_group and member_id = of_member and since_epoch = came_with"
    then = f.struct(
        f.lit(None).cast("int").alias("step"),
        f.col("became_us").alias("begin_us"),
        f.col("became_us").alias("done_us"),
    )
    is_sooner = "became_us < coalesce(released.begin_us, became_us + 1)"
    return HOLDINGS.shape(
        held.join(f.broadcast(became), f.expr(is_its), "left").withColumn(
            "released", f.when(f.expr(is_sooner), then).otherwise(f.col("released"))
        )
    )


def ghosts(
    signs_of_life: DataFrame, holdings: DataFrame, extent_: DataFrame, session_timeout_ms: int
) -> DataFrame:
    """Return every ghost, as `GHOSTS`."""
    silent = _nameless(signs_of_life, session_timeout_ms).unionByName(
        _fallen_silent(signs_of_life, session_timeout_ms)
    )
    ended = silent.crossJoin(f.broadcast(extent_)).where("last_us - from_us >= timeout_us")
    until = f.least("next_us", f.col("from_us") + f.col("timeout_us"), "last_us")
    with_end = ended.withColumns(
        {
            "until_us": until,
            "ended_by": f.lit("session timeout"),
            "ghost": f.struct("group_id", "member_id", "client", "from_us"),
        }
    )
    return GHOSTS.shape(
        _with_kept_free(_with_held(with_end, holdings), holdings).withColumns(
            {"last_sign": f.timestamp_micros("from_us"), "until": f.timestamp_micros("until_us")}
        )
    )


_SILENT: Final = (
    "group_id",
    "member_id",
    "protocol",
    "kind",
    "client",
    "client_id",
    "from_us",
    "next_us",
    "timeout_us",
    "would_own_id_save",
)


def _timeout_us(session_timeout_ms: int) -> Column:
    return f.coalesce("session_timeout_ms", f.lit(session_timeout_ms)) * 1000


def _nameless(signs_of_life: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Find joins of which only the coordinator knows what it called the member."""
    lost = signs_of_life.where(
        (f.col("sign") == JOIN) & f.col("end_us").isNull() & ~f.col("is_harmless")
    )
    return lost.withColumns(
        {
            "kind": f.lit(LOST_ANSWER),
            "from_us": f.col("start_us"),
            "next_us": f.lit(None).cast("bigint"),
            "timeout_us": _timeout_us(session_timeout_ms),
            "would_own_id_save": f.lit(True),
        }
    ).select(*_SILENT)


def _fallen_silent(signs_of_life: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Find members whose next sign of life never came, or came after their session had ended."""
    # Refused otherwise, a request is still a sign of life, but not that of a member.
    told = (f.col("error") == ErrorCode.NONE) | f.col("end_us").isNull() | is_over()
    named = signs_of_life.where((somebody() != "") & told).withColumns(
        {"end_or_start_us": f.coalesce("end_us", "start_us"), "somebody": somebody()}
    )
    so_far = until_now(SOMEBODY, _ORDER)
    told_timeout = f.last("session_timeout_ms", ignorenulls=True).over(so_far)
    last = named.withColumns(
        {
            "session_timeout_ms": told_timeout,
            "timeout_us": f.coalesce(told_timeout, f.lit(session_timeout_ms)) * 1000,
            "next_us": f.lead("start_us").over(in_order(SOMEBODY, _ORDER)),
            "was_nameless": f.first("asked_member_id").over(so_far) == "",
            "stays": f.count_if(f.col("sign") != JOIN).over(so_far),
            "from_us": f.col("lasts_us"),
        }
    ).where(~is_over() & (f.col("next_us").isNull() | (f.expr("next_us - from_us > timeout_us"))))
    joined_only = f.col("stays") == 0
    return last.withColumns(
        {
            "kind": f.when(joined_only, NEVER_CAME_BACK).otherwise(VANISHED),
            "would_own_id_save": joined_only & f.col("was_nameless"),
        }
    ).select(*_SILENT)


def _with_held(ghosts_: DataFrame, holdings: DataFrame) -> DataFrame:
    """Add what ghosts held, and for how long after their last sign of life."""
    held = ghosts_.alias("g").join(
        holdings.alias("h"),
        f.expr(
            "g.group_id = h.group_id and g.member_id = h.member_id and h.begin_us <= g.from_us"
            " and (h.released is null or h.released.begin_us > g.from_us)"
        ),
        "left",
    )
    seconds = f.expr("greatest(0, least(until_us, h.taken_done_us) - from_us)") / _US
    rest = [f"g.{name}" for name in ghosts_.columns if name != "ghost"]
    return held.groupBy("ghost", *rest).agg(
        f.count("h.partition").alias("partitions_held"),
        f.coalesce(f.sum(f.when(f.col("h.partition").isNotNull(), seconds)), f.lit(0.0)).alias(
            "partition_seconds_held"
        ),
    )


def _with_kept_free(ghosts_: DataFrame, holdings: DataFrame) -> DataFrame:
    """Add for how long partitions that were let go meanwhile had no reader."""
    partition = ("group_id", "topic", "partition")
    given = f.lead("done_us").over(in_order(partition, ("begin_us",)))
    free = holdings.withColumn("given_us", given).where("released is not null").alias("h")
    meets = f.expr(
        "g.group_id = h.group_id and h.released.done_us < g.until_us"
        " and coalesce(h.given_us, g.last_us) > g.from_us"
    )
    gaps = ghosts_.select("ghost", "group_id", "from_us", "until_us", "last_us").alias("g")
    gap = f.struct("h.topic", "h.partition", "h.released.done_us")
    overlap = f.expr(
        "least(coalesce(h.given_us, g.last_us), g.until_us)"
        " - greatest(h.released.done_us, g.from_us)"
    )
    shared = (
        gaps.join(free, meets)
        .select("ghost", "g.group_id", gap.alias("gap"), (overlap / _US).alias("seconds"))
        .where("seconds > 0")
    )
    among = f.count(f.lit(1)).over(Window.partitionBy("group_id", "gap"))
    by_ghost = (
        shared.withColumn("seconds", f.col("seconds") / among)
        .groupBy("ghost")
        .agg(f.sum("seconds").alias("free_seconds"))
    )
    return ghosts_.join(by_ghost, "ghost", "left").withColumn(
        "partition_seconds_kept_free", f.coalesce("free_seconds", f.lit(0.0))
    )


def totals(found: DataFrame) -> DataFrame:
    """Return what the ghosts of each kind cost, as `TOTALS`."""
    cost = f.col("partition_seconds_held") + f.col("partition_seconds_kept_free")
    return TOTALS.shape(
        found.groupBy("kind", "would_own_id_save").agg(
            f.count(f.lit(1)).alias("ghosts"),
            f.count_distinct("group_id").alias("groups"),
            f.sum(cost).alias("partition_seconds"),
        )
    )


MEMBERS = Audit(
    "members",
    "which members were ghosts, what waited for them, and what client-made ids had saved",
    (GHOSTS, TOTALS),
    members,
)
"""The audit."""
