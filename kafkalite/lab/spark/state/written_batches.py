"""Record batches of idempotent producers, by which a batch that was sent again is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar.records.record_batches import header_bytes
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.stages.projection import Projection, flatten_partitions, row_codes
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

_FIELDS: Final = {"client": "client", "client_id": "client_id", "written": "request.topic_data"}
_BY: Final = ("client", "client_id", "topic", "topic_id", "partition", "batch")
_SCHEMA: Final = pa.schema(
    [
        ("client", pa.string()),
        ("client_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("batch", pa.binary()),
        ("times", pa.int64()),
    ]
)
_PRODUCER: Final = header_bytes("producer_id", "base_sequence")
_NOT_IDEMPOTENT: Final = b"\xff" * 8


def written_batches(requests: Requests) -> DataFrame:
    """Return how often each client wrote a batch: (client, client_id, topic, ..., batch, times).

    `batch` has the producer id, the epoch and the base sequence. Each task has its own rows.
    """
    return requests.window.project(WRITTEN_BATCHES).withColumn("topic_id", f.hex("topic_id"))


def count_batches(rows: pa.Table) -> pa.Table:
    """Count the equal batches in some Produce requests."""
    written = flatten_partitions(rows["written"], "partition_data")
    records = pc.struct_field(written.partition, "records")
    batch = pc.binary_slice(records, _PRODUCER.start, _PRODUCER.stop)
    is_idempotent = np.asarray(
        pc.fill_null(pc.greater_equal(pc.binary_length(records), _PRODUCER.stop), fill_value=False)
    ) & ~np.asarray(pc.fill_null(pc.starts_with(batch, _NOT_IDEMPOTENT), fill_value=False))
    batches = pa.table(
        {
            "client": rows["client"].take(pa.array(written.row)),
            "client_id": rows["client_id"].take(pa.array(written.row)),
            "topic": written.of_topic("name"),
            "topic_id": pc.cast(written.of_topic("topic_id"), pa.binary()),
            "partition": pc.struct_field(written.partition, "index"),
            "batch": batch,
        }
    ).filter(pa.array(is_idempotent))
    _, firsts, times = np.unique(row_codes(batches, _BY), return_index=True, return_counts=True)
    return batches.take(pa.array(firsts)).append_column("times", pa.array(times, pa.int64()))


WRITTEN_BATCHES: Final = Projection(
    name="written_batches",
    api_key=int(ApiKey.PRODUCE),
    fields=_FIELDS,
    reduce_rows=count_batches,
    schema=_SCHEMA,
)
