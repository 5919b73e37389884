"""What leaders of Connect's workers write of their connectors into the topic of configurations.

With exactly-once sources a leader writes as the transactional producer `connect-cluster-GROUP`,
which is how its few requests are found among all; only these are opened.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.columnar.records import read_column
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

LEADER: Final = "connect-cluster-"
CONFIGURED: Final = "configured"
COUNTED: Final = "counted"

CONFIGURATIONS = table(
    "connect_configurations",
    "What a leader of Connect's workers wrote of a connector's tasks",
    ("connect_group", "string", "the group of the workers"),
    ("connector", "string", "the connector"),
    (
        "kind",
        "string",
        "configured: its tasks have new configurations; counted: they may begin (KIP-618)",
    ),
    ("tasks", "int", "how many tasks it has"),
    ("client", "string", "the leader: host:port"),
    ("start_us", "bigint", "when it wrote that: microseconds since the Unix epoch"),
    ("end_us", "bigint", "when that was taken"),
    ("place", "int", "counts what one request says"),
)

_KEYS: Final = (
    ("commit-", CONFIGURED, "tasks"),
    ("tasks-fencing-", COUNTED, "task-count"),
    ("tasks-count-", COUNTED, "tasks"),  # as the proposal wrote it
)
"""(how a record's key begins, what it tells, the field that says how many)."""

_MOST_TASKS: Final = 2**31 - 1
_READ: Final = pa.schema(
    [
        pa.field("connect_group", pa.string()),
        pa.field("client", pa.string()),
        pa.field("start_us", pa.int64()),
        pa.field("end_us", pa.int64()),
        pa.field("connector", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("tasks", pa.int32()),
        pa.field("place", pa.int32()),
    ]
)
_TOLD: Final = tuple(_READ.names[:4])


def configurations(requests: Requests) -> DataFrame:
    """Return what leaders wrote of connectors, as `CONFIGURATIONS`."""
    written = (
        requests.of("Produce")
        .where(f.col("request.transactional_id").startswith(LEADER))
        .select(
            f.substring("request.transactional_id", len(LEADER) + 1, 10_000).alias("connect_group"),
            "client",
            f.unix_micros("ts").alias("start_us"),
            f.unix_micros("answered").alias("end_us"),
            f.explode("request.topic_data").alias("t"),
            f.expr(
                "exists(response.responses, t -> exists(t.partition_responses,"
                f" p -> p.error_code != {int(ErrorCode.NONE)}))"
            ).alias("is_refused"),
        )
        .where("not is_refused")
        .select(*_TOLD, f.explode("t.partition_data.records").alias("records"))
    )
    if "Produce" not in requests or written.isEmpty():
        # Python's workers would begin for nothing, in nearly every capture.
        return CONFIGURATIONS.empty(requests.spark)
    return CONFIGURATIONS.shape(written.mapInArrow(read_configurations, from_arrow_schema(_READ)))


def read_configurations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read what the records in the last column say of connectors; all else is passed over.

    Records that a capture has cut short, or that are damaged, say nothing.
    """
    for batch in batches:
        told = batch.select(_TOLD).to_pylist()
        rows = []
        for opened in read_column(batch["records"].cast(pa.binary())):
            keys, values = opened.records["key"].to_pylist(), opened.records["value"].to_pylist()
            for place, (cell, key, value) in enumerate(
                zip(opened.cells, keys, values, strict=True)
            ):
                said = configuration(key, value)
                if said is not None:
                    connector, kind, tasks = said
                    rows.append(
                        told[int(cell)]
                        | {"connector": connector, "kind": kind, "tasks": tasks, "place": place}
                    )
        yield pa.RecordBatch.from_pylist(rows, _READ)


def configuration(key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
    """Read one record: (connector, kind, tasks); None for one that says something else."""
    try:
        name = (key or b"").decode()
        found = next(each for each in _KEYS if name.startswith(each[0]))
        said = json.loads(value or b"")
    except (StopIteration, ValueError, RecursionError):
        return None
    prefix, kind, field = found
    if isinstance(said, dict) and isinstance(said.get("payload"), dict):
        said = said["payload"]
    tasks = said.get(field) if isinstance(said, dict) else None
    if not isinstance(tasks, int) or isinstance(tasks, bool) or not 0 <= tasks <= _MOST_TASKS:
        return None
    return name.removeprefix(prefix), kind, tasks
