"""Assignments of classic groups: the partitions that each member received in each generation.

The leader's SyncGroup request has the assignments of all members; a member's response has only its
own. Coordinators do not decode assignments; those of consumers are ConsumerProtocolAssignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.traffic.columnar.coordinator_records import decode_versioned
from kafkalite.traffic.spark.state.liveness import SYNC_GROUP
from kafkalite.traffic.spark.state.partition_ownership import HOLDINGS
from kafkalite.traffic.spark.state.tables import table
from kafkalite.traffic.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.traffic.spark.requests import Requests

ASSIGNMENTS = table(
    "assignments",
    "A partition that a member of a classic group was assigned in a generation",
    ("group_id", "string", "the group"),
    ("generation", "int", "the generation"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic; null if the member got no partition or is_read is false"),
    ("partition", "int", "the partition"),
    ("is_read", "boolean", "whether the assignment could be decoded as a consumer's"),
    ("is_leaders", "boolean", "whether it is from the leader's request, which has all members"),
    ("begin_us", "bigint", "earliest possible time of the assignment"),
    ("done_us", "bigint", "latest possible time of the assignment"),
)

_CONSUMER: Final = "consumer"
_SPEC: Final = "consumer_protocol_assignment"
_LIST: Final = pa.list_(
    pa.struct([pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))])
)
_DECODED: Final = pa.schema(
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
_KEY_COLUMNS: Final = tuple(_DECODED.names[:6])


def assignments(requests: Requests) -> DataFrame:
    """Return all assignments of classic groups of consumers, as `ASSIGNMENTS`."""
    if SYNC_GROUP not in requests:
        # mapInArrow would start a Python job even for an empty table.
        return ASSIGNMENTS.empty(requests.spark)
    rows = _from_leaders(requests).unionByName(_from_members(requests))
    read = rows.mapInArrow(read_assignments, from_arrow_schema(_DECODED))
    return ASSIGNMENTS.shape(
        read.select(*_KEY_COLUMNS, "is_read", f.explode_outer("given").alias("g"))
        .select(
            *_KEY_COLUMNS, "is_read", "g.topic", f.explode_outer("g.partitions").alias("partition")
        )
        .withColumn("topic", f.when(f.col("partition").isNotNull(), f.col("topic")))
    )


def _successful_syncs(requests: Requests) -> DataFrame:
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


def _from_leaders(requests: Requests) -> DataFrame:
    rows = _successful_syncs(requests).withColumns(
        {"is_leaders": f.lit(True), "a": f.explode("request.assignments")}
    )
    return rows.withColumn("member_id", f.col("a.member_id")).select(*_KEY_COLUMNS, "a.assignment")


def _from_members(requests: Requests) -> DataFrame:
    rows = _successful_syncs(requests).where("size(request.assignments) = 0")
    return rows.withColumns(
        {"is_leaders": f.lit(False), "member_id": f.col("request.member_id")}
    ).select(*_KEY_COLUMNS, "response.assignment")


def read_assignments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the assignments in the last column; undecodable ones get `is_read` false.

    An empty assignment means no partitions: coordinators send it to members the leader omitted.
    """
    for batch in batches:
        column = batch["assignment"].cast(pa.binary())
        decoded = decode_versioned(_SPEC, column)
        is_read = np.asarray(column.is_valid()).copy()
        is_read[[error.row for error in decoded.errors]] = False
        is_empty = np.asarray(pc.equal(pc.binary_length(column), 0).fill_null(True))
        assigned = pc.if_else(
            pa.array(is_read & ~is_empty), decoded.values.field("assigned_partitions"), None
        )
        columns = [batch[name].cast(_DECODED.field(name).type) for name in _KEY_COLUMNS]
        yield pa.RecordBatch.from_arrays(
            [*columns, pa.array(is_read | is_empty), assigned.cast(_LIST)], schema=_DECODED
        )


def assignment_holdings(assignments_: DataFrame, generations: DataFrame) -> DataFrame:
    """Return the holdings of classic members between successive assignments, as `HOLDINGS`."""
    by_group = ordered_rows(("group_id",), ("life", "generation"))
    times = generations.where("assigned_done_us is not null").select(
        "group_id",
        "generation",
        "assigned_begin_us",
        f.lead("assigned_begin_us").over(by_group).alias("taken_begin_us"),
        f.lead("assigned_done_us").over(by_group).alias("taken_done_us"),
    )
    intervals = (
        assignments_.where("topic is not null")
        .groupBy("group_id", "generation", "member_id", "topic", "partition", "begin_us")
        .agg(f.min("done_us").alias("done_us"))
        .join(times.alias("t"), ["group_id", "generation"])
        # Generation numbers restart, so the assignment must also match in time.
        .where("begin_us <= coalesce(taken_begin_us, begin_us) and done_us >= assigned_begin_us")
    )
    keys = ("group_id", "member_id", "topic", "partition", "generation")
    return HOLDINGS.shape(
        intervals.groupBy(*keys, "taken_begin_us", "taken_done_us")
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
