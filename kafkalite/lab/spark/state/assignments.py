"""Assignments of classic groups: the partitions that each member received in each generation.

The leader's SyncGroup request has the assignments of all members; a member's response has only its
own. Coordinators do not decode assignments; those of consumers are ConsumerProtocolAssignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar.records.coordinator_records import decode_versioned
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema
from kafkalite.lab.spark.state.liveness import SYNC_GROUP
from kafkalite.lab.spark.state.partition_ownership import OWNED_PARTITIONS
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

ASSIGNMENTS = table(
    "assignments",
    "A partition that a member of a classic group was assigned in a generation",
    ("group_id", "string", "the group"),
    ("generation", "int", "the generation"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic; null if the member got no partition or is_decoded is false"),
    ("partition", "int", "the partition"),
    ("is_decoded", "boolean", "whether the assignment could be decoded as a consumer's"),
    ("is_from_leader", "boolean", "whether it is from the leader's request, which has all members"),
    ("earliest_us", "bigint", "earliest possible time of the assignment"),
    ("latest_us", "bigint", "latest possible time of the assignment"),
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
        pa.field("is_from_leader", pa.bool_()),
        pa.field("earliest_us", pa.int64()),
        pa.field("latest_us", pa.int64()),
        pa.field("is_decoded", pa.bool_()),
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
    read = rows.mapInArrow(read_assignments, to_schema(_DECODED))
    return ASSIGNMENTS.shape(
        read.select(*_KEY_COLUMNS, "is_decoded", f.explode_outer("given").alias("g"))
        .select(
            *_KEY_COLUMNS,
            "is_decoded",
            "g.topic",
            f.explode_outer("g.partitions").alias("partition"),
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
                "earliest_us": f.unix_micros("ts"),
                "latest_us": f.unix_micros("response_ts"),
            }
        )
    )


def _from_leaders(requests: Requests) -> DataFrame:
    rows = _successful_syncs(requests).withColumns(
        {"is_from_leader": f.lit(True), "a": f.explode("request.assignments")}
    )
    return rows.withColumn("member_id", f.col("a.member_id")).select(*_KEY_COLUMNS, "a.assignment")


def _from_members(requests: Requests) -> DataFrame:
    rows = _successful_syncs(requests).where("size(request.assignments) = 0")
    return rows.withColumns(
        {"is_from_leader": f.lit(False), "member_id": f.col("request.member_id")}
    ).select(*_KEY_COLUMNS, "response.assignment")


def read_assignments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the assignments in the last column; undecodable ones get `is_decoded` false.

    An empty assignment means no partitions: coordinators send it to members the leader omitted.
    """
    for batch in batches:
        column = batch["assignment"].cast(pa.binary())
        decoded = decode_versioned(_SPEC, column)
        is_decoded = np.asarray(column.is_valid()).copy()
        is_decoded[[error.row for error in decoded.errors]] = False
        is_empty = np.asarray(pc.equal(pc.binary_length(column), 0).fill_null(True))
        assigned = pc.if_else(
            pa.array(is_decoded & ~is_empty), decoded.values.field("assigned_partitions"), None
        )
        columns = [batch[name].cast(_DECODED.field(name).type) for name in _KEY_COLUMNS]
        yield pa.RecordBatch.from_arrays(
            [*columns, pa.array(is_decoded | is_empty), assigned.cast(_LIST)], schema=_DECODED
        )


def assigned_to_owned_partitions(assignments_: DataFrame, generations: DataFrame) -> DataFrame:
    """Return partitions of classic members between assignments, as `OWNED_PARTITIONS`."""
    by_group = ordered_rows(("group_id",), ("restart_count", "generation"))
    times = generations.where("assigned_latest_us is not null").select(
        "group_id",
        "generation",
        "assigned_earliest_us",
        f.lead("assigned_earliest_us").over(by_group).alias("reassigned_earliest_us"),
        f.lead("assigned_latest_us").over(by_group).alias("reassigned_latest_us"),
    )
    intervals = (
        assignments_.where("topic is not null")
        .groupBy("group_id", "generation", "member_id", "topic", "partition", "earliest_us")
        .agg(f.min("latest_us").alias("latest_us"))
        .join(times.alias("t"), ["group_id", "generation"])
        # Generation numbers restart, so the assignment must also match in time.
        .where(
            "earliest_us <= coalesce(reassigned_earliest_us, earliest_us)"
            " and latest_us >= assigned_earliest_us"
        )
    )
    keys = ("group_id", "member_id", "topic", "partition", "generation")
    return OWNED_PARTITIONS.shape(
        intervals.groupBy(*keys, "reassigned_earliest_us", "reassigned_latest_us")
        .agg(f.min("earliest_us").alias("earliest_us"), f.min("latest_us").alias("latest_us"))
        .withColumns(
            {
                "is_named": f.lit(True),
                "assignment_epoch": f.col("generation"),
                "is_assignment_epoch_known": f.lit(True),
                "assigned_step": f.col("generation"),
                "revoked_step": f.lit(None),
                "released": f.when(
                    f.col("reassigned_earliest_us").isNotNull(),
                    f.struct(
                        f.lit(None).cast("int").alias("step"),
                        f.col("reassigned_earliest_us").alias("earliest_us"),
                        f.col("reassigned_latest_us").alias("latest_us"),
                    ),
                ),
            }
        )
    )
