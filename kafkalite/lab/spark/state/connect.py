"""Task configurations that leaders of Connect's workers write to the configuration topic.

With exactly-once sources a leader writes as the transactional producer `connect-cluster-GROUP`.
Only Produce requests with such a transactional id are decoded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.lab.columnar.records.records import read_column
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema
from kafkalite.lab.spark.state.tables import table
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

LEADER: Final = "connect-cluster-"
TASK_CONFIGURATIONS: Final = "task configurations"
TASK_COUNT: Final = "task count"

CONFIGURATIONS = table(
    "connect_configurations",
    "A record about a connector's tasks, written by a leader of Connect's workers",
    ("connect_group", "string", "the workers' group"),
    ("connector", "string", "the connector"),
    (
        "kind",
        "string",
        "task configurations: of new tasks; task count: the new tasks may start (KIP-618)",
    ),
    ("tasks", "int", "number of tasks"),
    ("client", "string", "the leader: host:port"),
    ("start_us", "bigint", "time of the request in microseconds since the Unix epoch"),
    ("end_us", "bigint", "time of the response"),
    ("record_index", "int", "position of the record in the request, from 0"),
)

_KEYS: Final = (
    ("commit-", TASK_CONFIGURATIONS, "tasks"),
    ("tasks-fencing-", TASK_COUNT, "task-count"),
    ("tasks-count-", TASK_COUNT, "tasks"),  # the name in KIP-618's text
)
"""(prefix of the record's key, kind, field with the number of tasks)."""

_MAX_TASKS: Final = 2**31 - 1
_DECODED: Final = pa.schema(
    [
        pa.field("connect_group", pa.string()),
        pa.field("client", pa.string()),
        pa.field("start_us", pa.int64()),
        pa.field("end_us", pa.int64()),
        pa.field("connector", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("tasks", pa.int32()),
        pa.field("record_index", pa.int32()),
    ]
)
_REQUEST_COLUMNS: Final = tuple(_DECODED.names[:4])


def configurations(requests: Requests) -> DataFrame:
    """Return the records that leaders wrote about connectors, as `CONFIGURATIONS`."""
    written = (
        requests.of("Produce")
        .where(f.col("request.transactional_id").startswith(LEADER))
        .select(
            f.substring("request.transactional_id", len(LEADER) + 1, 10_000).alias("connect_group"),
            "client",
            f.unix_micros("ts").alias("start_us"),
            f.unix_micros("response_ts").alias("end_us"),
            f.explode("request.topic_data").alias("t"),
            f.expr(
                "exists(response.responses, t -> exists(t.partition_responses,"
                f" p -> p.error_code != {int(ErrorCode.NONE)}))"
            ).alias("is_refused"),
        )
        .where("not is_refused")
        .select(*_REQUEST_COLUMNS, f.explode("t.partition_data.records").alias("records"))
    )
    if "Produce" not in requests or written.isEmpty():
        # Most captures have none; this avoids starting Python workers.
        return CONFIGURATIONS.empty(requests.spark)
    return CONFIGURATIONS.shape(written.mapInArrow(read_configurations, to_schema(_DECODED)))


def read_configurations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the records in the last column and return those about tasks.

    Truncated and damaged records are skipped.
    """
    for batch in batches:
        requests_ = batch.select(_REQUEST_COLUMNS).to_pylist()
        rows = []
        for decoded_records in read_column(batch["records"].cast(pa.binary())):
            keys, values = (
                decoded_records.records["key"].to_pylist(),
                decoded_records.records["value"].to_pylist(),
            )
            for position, (request_index, key, value) in enumerate(
                zip(decoded_records.range_indexes, keys, values, strict=True)
            ):
                decoded = configuration(key, value)
                if decoded is not None:
                    connector, kind, tasks = decoded
                    rows.append(
                        requests_[int(request_index)]
                        | {
                            "connector": connector,
                            "kind": kind,
                            "tasks": tasks,
                            "record_index": position,
                        }
                    )
        yield pa.RecordBatch.from_pylist(rows, _DECODED)


def configuration(key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
    """Decode one record to (connector, kind, tasks); None if it is about something else."""
    try:
        name = (key or b"").decode()
        matching = next(row for row in _KEYS if name.startswith(row[0]))
        content = json.loads(value or b"")
    except (StopIteration, ValueError, RecursionError):
        return None
    prefix, kind, field = matching
    if isinstance(content, dict) and isinstance(content.get("payload"), dict):
        content = content["payload"]
    tasks = content.get(field) if isinstance(content, dict) else None
    if not isinstance(tasks, int) or isinstance(tasks, bool) or not 0 <= tasks <= _MAX_TASKS:
        return None
    return name.removeprefix(prefix), kind, tasks
