"""Where Python's workers on this machine come from: a process that has our decoder, and forks.

Spark's own daemon forks first and imports then: two seconds of work for each worker, imports and
compiled loops, before each has read a byte. Nothing here is for a cluster: there our package may
arrive only with a task.
"""

from __future__ import annotations

import gc
from struct import pack
from typing import Final

# Imported for those that are forked. The one thread that this starts is of Arrow's allocator, which
# knows what to do about it when a process forks.
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import kafkalite.spark.sources.rows
import kafkalite.spark.stages.stitching  # noqa: F401
from kafkalite.capture import pcapng
from kafkalite.capture.model import Endpoint
from kafkalite.capture.synthetic import Wire
from kafkalite.columnar.options import Table
from kafkalite.columnar.reading import read_file
from kafkalite.spark.stages.typed import typed

_REQUEST: Final = pack(">ihhih", 10, 18, 0, 1, -1)
_RESPONSE: Final = pack(">iihi", 10, 1, 0, 0)


def tiny_capture() -> bytes:
    """Return a capture of one connection that asks which versions there are."""
    wire = Wire(Endpoint("10.0.0.2", 40_000), Endpoint("10.0.0.1", 9_092), 0, 1, 0)
    there, back = wire.to_broker, wire.to_client
    blocks = [
        *wire.open(),
        there.block(0, 2, back.sequence, _REQUEST),
        back.block(0, 3, there.sequence, _RESPONSE),
        *wire.close(4),
    ]
    packets = b"".join(bytes(piece) for block in blocks for piece in block)
    return pcapng.section("kafkalite", "") + pcapng.interface("any", "") + packets


def warm_up() -> int:
    """Go through the decoder once, so that its loops are there when it is forked."""
    return sum(
        found.requests.num_rows
        for table, batch in read_file(tiny_capture(), "warm")
        if table is Table.PAIRS
        for found in typed(batch)
        if found.requests is not None
    )


if __name__ == "__main__":
    warm_up()
    # Workers collect garbage after every task: a third of their time, if this were part of it.
    gc.collect()
    gc.freeze()
    manager()
