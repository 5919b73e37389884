"""Fencing of producers (KIP-618): who took over transactional ids, and who wrote on regardless.

Whoever begins as a new producer of a transactional id fences the one before. What that one sends
after the answer went is a zombie's; what was under way meanwhile may have come before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits import connect
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.state.connect import CONFIGURATIONS
from kafkalite.spark.state.extent import EXTENT
from kafkalite.spark.state.order import before_now, in_order, until_now
from kafkalite.spark.state.producing import inits, writes
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

FENCES = table(
    "producer_fences",
    "A producer that was given a transactional id's next epoch",
    ("at", "timestamp", "when it asked"),
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "the producer id it was given"),
    ("producer_epoch", "int", "and the epoch"),
    ("client", "string", "who asked: host:port"),
    ("client_id", "string", "and by which name"),
    ("kind", "string", "first; own: it goes on with a later epoch; takeover: it fences another"),
    ("fenced_client", "string", "whose epoch that ended"),
    ("fenced_epoch", "int", "and which"),
    ("is_used", "boolean", "whether anything was written at this epoch: no for an admin's fence"),
)

ZOMBIES = table(
    "zombie_writes",
    "A request made at an epoch that a takeover had fenced before it was sent",
    ("at", "timestamp", "when it came"),
    ("transactional_id", "string", "the transactional id"),
    ("api", "string", "what it was"),
    ("client", "string", "who sent it: host:port"),
    ("producer_id", "bigint", "the producer id it was made with"),
    ("producer_epoch", "int", "and the epoch"),
    ("fence_epoch", "int", "the epoch that fences it"),
    ("fenced_at", "timestamp", "since when"),
    ("fenced_by", "string", "by whom: host:port"),
    ("error", "smallint", "what it was answered; null without an answer"),
    ("outcome", "string", "refused, accepted or unanswered"),
)

TRANSACTIONS = table(
    "transactions",
    "A transaction",
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "the producer id"),
    ("producer_epoch", "int", "and the epoch it began at"),
    ("client", "string", "who began it: host:port"),
    ("began_at", "timestamp", "when its first write came"),
    ("ended_at", "timestamp", "when it was ended; null for one left open"),
    (
        "end",
        "string",
        (
            "committed; aborted; fenced: by its id's next producer; open; overdue: open for longer "
            "than its timeout when the capture ends"
        ),
    ),
    ("writes", "bigint", "the requests in it"),
    ("seconds", "double", "how long it was open, as far as the capture tells"),
)

_ID: Final = ("transactional_id",)
_ORDER: Final = ("at_us", "kind", "position")


def producers(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    begun, written = inits(requests), writes(requests)
    found, late = fences(begun, written), zombies(begun, written)
    workers = connect.of_connect(found, connect.connect_groups(requests))
    return {
        FENCES.name: found,
        ZOMBIES.name: late,
        TRANSACTIONS.name: transactions(
            begun, written, requests.state(EXTENT.name), options.transaction_timeout_ms
        ),
        connect.TASKS.name: connect.tasks(workers, late),
        connect.GENERATIONS.name: connect.generations(requests.state(CONFIGURATIONS.name), workers),
    }


def fences(begun: DataFrame, written: DataFrame) -> DataFrame:
    """Return the history of every transactional id's producers, as `FENCES`."""
    before = f.lag(f.struct("client", "client_id", "producer_id", "producer_epoch")).over(
        in_order(_ID, ("start_us", "position"))
    )
    kind = (
        f.when(f.col("before").isNull(), "first")
        .when(f.col("asked_producer_id") >= 0, "own")
        .otherwise("takeover")
    )
    producer = ("transactional_id", "producer_id")
    uses = written.groupBy(*producer).agg(f.collect_set("producer_epoch").alias("used"))
    next_epoch = f.lead("producer_epoch").over(in_order(producer, ("start_us", "position")))
    is_used = "exists(used, e -> e >= producer_epoch and e < coalesce(next_epoch, 32767))"
    rows = begun.withColumns({"before": before, "next_epoch": next_epoch}).withColumn("kind", kind)
    return FENCES.shape(
        rows.join(uses, list(producer), "left").withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "is_used": f.coalesce(f.expr(is_used), f.lit(False)),
                "fenced_client": f.when(f.col("kind") == "takeover", f.col("before.client")),
                "fenced_epoch": f.when(f.col("kind") == "takeover", f.col("before.producer_epoch")),
            }
        )
    )


def zombies(begun: DataFrame, written: DataFrame) -> DataFrame:
    """Return what fenced producers wrote, as `ZOMBIES`."""
    order = in_order(_ID, ("start_us", "position"))
    is_takeover = (f.col("asked_producer_id") < 0) & f.lag("client").over(order).isNotNull()
    fence = f.struct("producer_id", "producer_epoch", "end_us", "client")
    fenced = (
        begun.withColumn("is_takeover", is_takeover)
        .where("is_takeover")
        .select(
            *_ID,
            f.col("end_us").alias("at_us"),
            f.lit(0).alias("kind"),
            "position",
            fence.alias("fence"),
        )
    )
    both = written.withColumns({"at_us": f.col("start_us"), "kind": f.lit(1)}).unionByName(
        fenced, allowMissingColumns=True
    )
    last = f.last("fence", ignorenulls=True).over(until_now(_ID, _ORDER))
    older = (f.col("producer_id") < f.col("now.producer_id")) | (
        (f.col("producer_id") == f.col("now.producer_id"))
        & (f.col("producer_epoch") < f.col("now.producer_epoch"))
    )
    outcome = (
        f.when(f.col("error").isNull(), "unanswered")
        .when(f.col("error") == ErrorCode.NONE, "accepted")
        .otherwise("refused")
    )
    found = both.withColumn("now", last).where((f.col("kind") == 1) & older)
    return ZOMBIES.shape(
        found.withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "fence_epoch": f.col("now.producer_epoch"),
                "fenced_at": f.timestamp_micros("now.end_us"),
                "fenced_by": f.col("now.client"),
                "outcome": outcome,
            }
        )
    )


def transactions(
    begun: DataFrame, written: DataFrame, extent_: DataFrame, timeout_ms: int
) -> DataFrame:
    """Return every transaction and how it ended, as `TRANSACTIONS`.

    What was refused is in none. What ends one is its EndTxn, or its id's next producer.
    """
    counted = _numbered(begun, written)
    first = f.min_by(
        f.struct("producer_id", "producer_epoch", "client"), f.struct("start_us", "position")
    )
    is_write = ~f.col("is_end")
    by_number = counted.groupBy(*_ID, "number").agg(
        f.min(f.when(is_write, f.col("start_us"))).alias("began_us"),
        f.count_if(is_write).alias("writes"),
        f.max(f.when(f.col("is_end"), f.coalesce("end_us", "start_us"))).alias("ended_us"),
        f.max(f.when(f.col("is_end"), f.col("is_commit"))).alias("is_commit"),
        f.bool_or(f.coalesce("is_init", f.lit(False))).alias("is_init"),
        f.max("timeout_ms").alias("timeout_ms"),
        first.alias("first"),
    )
    until = f.coalesce("ended_us", "last_us")
    limit = f.coalesce("timeout_ms", f.lit(timeout_ms)).cast("bigint") * 1000
    end = (
        f.when(f.col("is_init"), "fenced")
        .when(f.col("is_commit"), "committed")
        .when(f.col("ended_us").isNotNull(), "aborted")
        .when(until - f.col("began_us") > limit, "overdue")
        .otherwise("open")
    )
    return TRANSACTIONS.shape(
        by_number.where("writes > 0")
        .crossJoin(f.broadcast(extent_))
        .withColumns(
            {
                "producer_id": f.col("first.producer_id"),
                "producer_epoch": f.col("first.producer_epoch"),
                "client": f.col("first.client"),
                "began_at": f.timestamp_micros("began_us"),
                "ended_at": f.timestamp_micros("ended_us"),
                "end": end,
                "seconds": (until - f.col("began_us")) / 1_000_000,
            }
        )
    )


def _numbered(begun: DataFrame, written: DataFrame) -> DataFrame:
    """Tell each id's transactions apart: a row is of the one after the ends before it."""
    took = written.where(f.col("error").isNull() | (f.col("error") == ErrorCode.NONE))
    taken_over = begun.select(
        *_ID,
        "start_us",
        "end_us",
        "position",
        "client",
        "timeout_ms",
        f.lit(True).alias("is_end"),
        f.lit(None).cast("boolean").alias("is_commit"),
        f.lit(True).alias("is_init"),
    )
    rows = took.unionByName(taken_over, allowMissingColumns=True)
    order = ("start_us", "position")
    return rows.withColumns(
        {
            "number": f.coalesce(f.count_if("is_end").over(before_now(_ID, order)), f.lit(0)),
            "timeout_ms": f.last("timeout_ms", ignorenulls=True).over(before_now(_ID, order)),
        }
    )


PRODUCERS = Audit(
    "producers",
    "who took over which transactional id, who wrote on regardless, and what was left open",
    (FENCES, ZOMBIES, TRANSACTIONS, connect.TASKS, connect.GENERATIONS),
    producers,
)
"""The audit."""
