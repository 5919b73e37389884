"""Assignments of classic groups: who was given which partition in which generation.

What the leader hands out in its SyncGroup tells of all members, what a member is answered of
itself alone. To the coordinator both are bytes; to consumers they are ConsumerProtocolAssignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.columnar.coordinator_records import versioned
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.holdings import HOLDINGS
from kafkalite.spark.state.order import in_order
from kafkalite.spark.state.signs import SYNC_GROUP
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

ASSIGNMENTS = table(
    "assignments",
    "A partition that a member of a classic group was given in a generation",
    ("group_id", "string", "the group"),
    ("generation", "int", "the generation"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic; null for a member that got none, or where is_read is false"),
    ("partition", "int", "the partition"),
    ("is_read", "boolean", "whether the assignment is one of consumers that can be read"),
    ("is_leaders", "boolean", "whether the leader handed it out: then it tells of all members"),
    ("begin_us", "bigint", "the earliest moment at which it was given"),
    ("done_us", "bigint", "the latest"),
)

_CONSUMER: Final = "consumer"
_SPEC: Final = "consumer_protocol_assignment"
_LIST: Final = pa.list_(
    pa.struct([pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))])
)
_READ: Final = pa.schema(
    [
        pa.field("group_id", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("member_id", pa.string()),
        pa.field("is_leaders", pa.bool_()),
        pa.field("begin_us", pa.int64()),
        pa.field("done_us", pa.int64()),
        pa.field("is_read", pa.bool_()),
        pa.field("given", _LIST),
    ]
)
_ROWS: Final = tuple(_READ.names[:6])


def assignments(requests: Requests) -> DataFrame:
    """Return all that classic groups of consumers were assigned, as `ASSIGNMENTS`."""
    if SYNC_GROUP not in requests:
        # What Python would have to read of nothing is a job all the same.
        return ASSIGNMENTS.empty(requests.spark)
    told = _handed_out(requests).unionByName(_received(requests))
    read = told.mapInArrow(read_assignments, from_arrow_schema(_READ))
    return ASSIGNMENTS.shape(
        read.select(*_ROWS, "is_read", f.explode_outer("given").alias("g"))
        .select(*_ROWS, "is_read", "g.topic", f.explode_outer("g.partitions").alias("partition"))
        .withColumn("topic", f.when(f.col("partition").isNotNull(), f.col("topic")))
    )


def _synced(requests: Requests) -> DataFrame:
    return (
        requests.of(SYNC_GROUP)
        .where(
            (f.col("response.error_code") == ErrorCode.NONE)
            & (f.coalesce("request.protocol_type", f.lit(_CONSUMER)) == _CONSUMER)
        )
        .withColumns(
            {
                "group_id": f.col("request.group_id"),
                "generation": f.col("request.generation_id"),
                "begin_us": f.unix_micros("ts"),
                "done_us": f.unix_micros("answered"),
            }
        )
    )


def _handed_out(requests: Requests) -> DataFrame:
    told = _synced(requests).withColumns(
        {"is_leaders": f.lit(True), "a": f.explode("request.assignments")}
    )
    return told.withColumn("member_id", f.col("a.member_id")).select(*_ROWS, "a.assignment")


def _received(requests: Requests) -> DataFrame:
    told = _synced(requests).where("size(request.assignments) = 0")
    return told.withColumns(
        {"is_leaders": f.lit(False), "member_id": f.col("request.member_id")}
    ).select(*_ROWS, "response.assignment")


def read_assignments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the assignments in the last column; what is none of consumers is told as not read.

    No bytes at all are what a coordinator gives a member that its leader forgot: nothing.
    """
    for batch in batches:
        column = batch["assignment"].cast(pa.binary())
        decoded = versioned(_SPEC, column)
        is_read = np.asarray(column.is_valid()).copy()
        is_read[[error.row for error in decoded.errors]] = False
        none = np.asarray(pc.equal(pc.binary_length(column), 0).fill_null(True))
        given = pc.if_else(
            pa.array(is_read & ~none), decoded.values.field("assigned_partitions"), None
        )
        columns = [batch[name].cast(_READ.field(name).type) for name in _ROWS]
        yield pa.RecordBatch.from_arrays(
            [*columns, pa.array(is_read | none), given.cast(_LIST)], schema=_READ
        )


def handed(given: DataFrame, generations: DataFrame) -> DataFrame:
    """Return what members of classic groups held, from one handing out to the next: `HOLDINGS`."""
    by_group = in_order(("group_id",), ("life", "generation"))
    times = generations.where("assigned_done_us is not null").select(
        "group_id",
        "generation",
        "assigned_begin_us",
        f.lead("assigned_begin_us").over(by_group).alias("taken_begin_us"),
        f.lead("assigned_done_us").over(by_group).alias("taken_done_us"),
    )
    held = (
        given.where("topic is not null")
        .groupBy("group_id", "generation", "member_id", "topic", "partition", "begin_us")
        .agg(f.min("done_us").alias("done_us"))
        .join(times.alias("t"), ["group_id", "generation"])
        # Numbers of generations begin anew: the handing out is that of the same time.
        .where("begin_us <= coalesce(taken_begin_us, begin_us) and done_us >= assigned_begin_us")
    )
    whole = ("group_id", "member_id", "topic", "partition", "generation")
    return HOLDINGS.shape(
        held.groupBy(*whole, "taken_begin_us", "taken_done_us")
        .agg(f.min("begin_us").alias("begin_us"), f.min("done_us").alias("done_us"))
        .withColumns(
            {
                "is_named": f.lit(True),
                "since_epoch": f.col("generation"),
                "is_since_known": f.lit(True),
                "from_step": f.col("generation"),
                "lost_step": f.lit(None),
                "released": f.when(
                    f.col("taken_begin_us").isNotNull(),
                    f.struct(
                        f.lit(None).cast("int").alias("step"),
                        f.col("taken_begin_us").alias("begin_us"),
                        f.col("taken_done_us").alias("done_us"),
                    ),
                ),
            }
        )
    )
