"""Fencing of producers (KIP-618): takeovers of transactional ids and late writes by zombies.

A new producer of a transactional id fences the previous one. If the previous producer
sends a request after the response to the InitProducerId of the new one, it is a zombie. Requests in
flight at that time do not count, because they may have arrived earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits import connect
from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import shared
from kafkalite.lab.spark.state.connect import CONFIGURATIONS
from kafkalite.lab.spark.state.producing import WRITES, inits
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.time_range import TIME_RANGE
from kafkalite.lab.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)
from kafkalite.ports.units import MICROSECONDS_PER_SECOND
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

FENCES = table(
    "producer_fences",
    "A producer that received a new epoch for a transactional id",
    ("at", "timestamp", "time of the InitProducerId request"),
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "the producer id it received"),
    ("producer_epoch", "int", "the producer epoch it received"),
    ("client", "string", "the client: host:port"),
    ("client_id", "string", "the client id"),
    (
        "kind",
        "string",
        (
            "first: the first of its id; own: the same producer with a later epoch; takeover: it "
            "fences another producer"
        ),
    ),
    ("fenced_client", "string", "the client of the fenced producer"),
    ("fenced_epoch", "int", "the fenced epoch"),
    (
        "has_writes",
        "boolean",
        "whether anything was written at this epoch; false for admin fencing",
    ),
    times=("at",),
)

ZOMBIES = table(
    "zombie_writes",
    "A request at an epoch that a takeover had fenced before the request was sent",
    ("at", "timestamp", "time of the request"),
    ("transactional_id", "string", "the transactional id"),
    ("api", "string", "API of the request"),
    ("client", "string", "the client: host:port"),
    ("producer_id", "bigint", "producer id of the request"),
    ("producer_epoch", "int", "producer epoch of the request"),
    ("fencing_epoch", "int", "the epoch that fences it"),
    ("fenced_at", "timestamp", "time since which it is fenced"),
    ("fenced_by", "string", "the client that took over: host:port"),
    ("error", "smallint", "error code of the response; null without a response"),
    ("outcome", "string", "refused, accepted or unanswered"),
    times=("at",),
)

TRANSACTIONS = table(
    "transactions",
    "A transaction",
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "the producer id"),
    ("producer_epoch", "int", "the producer epoch at its start"),
    ("client", "string", "the client that began it: host:port"),
    ("began_at", "timestamp", "time of its first write"),
    ("ended_at", "timestamp", "time of its end; null for an open transaction"),
    (
        "outcome",
        "string",
        (
            "committed; aborted; fenced: by the id's next producer; open; overdue: open for longer "
            "than its timeout at the end of the capture"
        ),
    ),
    ("writes", "bigint", "number of requests in it"),
    ("seconds", "double", "time for which it was open, as far as the capture shows"),
    times=("ended_at",),
)

_ID: Final = ("transactional_id",)
_ORDER: Final = ("at_us", "kind", "position")


def producers(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    init_rows, write_rows = shared(inits(requests)), requests.state(WRITES.name)
    fence_rows, zombie_rows = fences(init_rows, write_rows), zombies(init_rows, write_rows)
    workers = connect.select_connect_fences(fence_rows, connect.connect_groups(requests))
    return {
        FENCES.name: fence_rows,
        ZOMBIES.name: zombie_rows,
        TRANSACTIONS.name: transactions(
            init_rows, write_rows, requests.state(TIME_RANGE.name), options.transaction_timeout_ms
        ),
        connect.TASKS.name: connect.tasks(workers, zombie_rows),
        connect.GENERATIONS.name: connect.generations(requests.state(CONFIGURATIONS.name), workers),
    }


def fences(init_rows: DataFrame, write_rows: DataFrame) -> DataFrame:
    """Return the producers of every transactional id in order, as `FENCES`."""
    before = f.lag(f.struct("client", "client_id", "producer_id", "producer_epoch")).over(
        ordered_rows(_ID, ("start_us", "position"))
    )
    kind = (
        f.when(f.col("before").isNull(), "first")
        .when(f.col("request_producer_id") >= 0, "same producer")
        .otherwise("takeover")
    )
    producer = ("transactional_id", "producer_id")
    uses = write_rows.groupBy(*producer).agg(f.collect_set("producer_epoch").alias("used"))
    next_epoch = f.lead("producer_epoch").over(ordered_rows(producer, ("start_us", "position")))
    has_writes = "exists(used, e -> e >= producer_epoch and e < coalesce(next_epoch, 32767))"
    rows = init_rows.withColumns({"before": before, "next_epoch": next_epoch}).withColumn(
        "kind", kind
    )
    return FENCES.shape(
        rows.join(uses, list(producer), "left").withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "has_writes": f.coalesce(f.expr(has_writes), f.lit(False)),
                "fenced_client": f.when(f.col("kind") == "takeover", f.col("before.client")),
                "fenced_epoch": f.when(f.col("kind") == "takeover", f.col("before.producer_epoch")),
            }
        )
    )


def zombies(init_rows: DataFrame, write_rows: DataFrame) -> DataFrame:
    """Return the writes of fenced producers, as `ZOMBIES`."""
    order = ordered_rows(_ID, ("start_us", "position"))
    is_takeover = (f.col("request_producer_id") < 0) & f.lag("client").over(order).isNotNull()
    fence = f.struct("producer_id", "producer_epoch", "end_us", "client")
    fenced = (
        init_rows.withColumn("is_takeover", is_takeover)
        .where("is_takeover")
        .select(
            *_ID,
            f.col("end_us").alias("at_us"),
            f.lit(0).alias("kind"),
            "position",
            fence.alias("fence"),
        )
    )
    rows = write_rows.withColumns({"at_us": f.col("start_us"), "kind": f.lit(1)}).unionByName(
        fenced, allowMissingColumns=True
    )
    last = f.last("fence", ignorenulls=True).over(rows_up_to_current(_ID, _ORDER))
    is_fenced = (f.col("producer_id") < f.col("now.producer_id")) | (
        (f.col("producer_id") == f.col("now.producer_id"))
        & (f.col("producer_epoch") < f.col("now.producer_epoch"))
    )
    outcome = (
        f.when(f.col("error").isNull(), "unanswered")
        .when(f.col("error") == ErrorCode.NONE, "accepted")
        .otherwise("refused")
    )
    late_writes = rows.withColumn("now", last).where((f.col("kind") == 1) & is_fenced)
    return ZOMBIES.shape(
        late_writes.withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "fencing_epoch": f.col("now.producer_epoch"),
                "fenced_at": f.timestamp_micros("now.end_us"),
                "fenced_by": f.col("now.client"),
                "outcome": outcome,
            }
        )
    )


def transactions(
    init_rows: DataFrame, write_rows: DataFrame, capture_range: DataFrame, timeout_ms: int
) -> DataFrame:
    """Return every transaction and how it ended, as `TRANSACTIONS`.

    Refused requests are in no transaction. A transaction ends with EndTxn or with the next
    producer of its transactional id.
    """
    numbered = _number_transactions(init_rows, write_rows)
    first = f.min_by(
        f.struct("producer_id", "producer_epoch", "client"), f.struct("start_us", "position")
    )
    is_write = ~f.col("is_end")
    by_number = numbered.groupBy(*_ID, "number").agg(
        f.min(f.when(is_write, f.col("start_us"))).alias("began_us"),
        f.count_if(is_write).alias("writes"),
        f.max(f.when(f.col("is_end"), f.coalesce("end_us", "start_us"))).alias("ended_us"),
        f.max(f.when(f.col("is_end"), f.col("is_commit"))).alias("is_commit"),
        f.bool_or(f.coalesce("is_init", f.lit(False))).alias("is_init"),
        f.max("timeout_ms").alias("timeout_ms"),
        first.alias("first"),
    )
    until = f.coalesce("ended_us", "last_us")
    timeout_us = f.coalesce("timeout_ms", f.lit(timeout_ms)).cast("bigint") * 1000
    outcome = (
        f.when(f.col("is_init"), "fenced")
        .when(f.col("is_commit"), "committed")
        .when(f.col("ended_us").isNotNull(), "aborted")
        .when(until - f.col("began_us") > timeout_us, "overdue")
        .otherwise("open")
    )
    return TRANSACTIONS.shape(
        by_number.where("writes > 0")
        .crossJoin(f.broadcast(capture_range))
        .withColumns(
            {
                "producer_id": f.col("first.producer_id"),
                "producer_epoch": f.col("first.producer_epoch"),
                "client": f.col("first.client"),
                "began_at": f.timestamp_micros("began_us"),
                "ended_at": f.timestamp_micros("ended_us"),
                "outcome": outcome,
                "seconds": (until - f.col("began_us")) / MICROSECONDS_PER_SECOND,
            }
        )
    )


def _number_transactions(init_rows: DataFrame, write_rows: DataFrame) -> DataFrame:
    """Add `number`: the number of transactions that ended earlier. It identifies a transaction."""
    accepted = write_rows.where(f.col("error").isNull() | (f.col("error") == ErrorCode.NONE))
    ending_inits = init_rows.select(
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
    rows = accepted.unionByName(ending_inits, allowMissingColumns=True)
    order = ("start_us", "position")
    return rows.withColumns(
        {
            "number": f.coalesce(
                f.count_if("is_end").over(rows_before_current(_ID, order)), f.lit(0)
            ),
            "timeout_ms": f.last("timeout_ms", ignorenulls=True).over(
                rows_before_current(_ID, order)
            ),
        }
    )


PRODUCERS = Audit(
    "producers",
    "takeovers of transactional ids, writes by fenced producers, and open transactions",
    (FENCES, ZOMBIES, TRANSACTIONS, connect.TASKS, connect.GENERATIONS),
    producers,
    (WRITES.name,),
)
"""The audit `producers`."""
