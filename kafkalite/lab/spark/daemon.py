"""A daemon for Spark that forks Python workers on this machine, with our decoder already loaded.

Spark's own daemon forks before it imports, so every worker would need two seconds to import modules
and to compile loops. This daemon is not used on clusters, where our package may arrive with a task.
"""

from __future__ import annotations

import gc
from struct import pack
from typing import Final

# Imported before forking. This starts one thread, of Arrow's allocator, which handles forks.
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import kafkalite.lab.spark.audits
import kafkalite.lab.spark.sources.rows
import kafkalite.lab.spark.stages.stitching  # noqa: F401
from kafkalite.capture.formats import pcapng
from kafkalite.capture.formats.tcp_packets import TcpConnection
from kafkalite.capture.model import Endpoint
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark.stages.typed import decode_typed

_REQUEST: Final = pack(">ihhih", 10, 18, 0, 1, -1)
_RESPONSE: Final = pack(">iihi", 10, 1, 0, 0)


def small_capture() -> bytes:
    """Return a capture of one connection with one ApiVersions request."""
    tcp = TcpConnection(Endpoint("10.0.0.2", 40_000), Endpoint("10.0.0.1", 9_092), 0, 1, 0)
    to_broker, to_client = tcp.to_broker, tcp.to_client
    blocks = [
        *tcp.open(),
        to_broker.block(0, 2, to_client.sequence, _REQUEST),
        to_client.block(0, 3, to_broker.sequence, _RESPONSE),
        *tcp.close(4),
    ]
    packets = b"".join(bytes(piece) for block in blocks for piece in block)
    return pcapng.section("kafkalite", "") + pcapng.interface("any", "") + packets


def warm_up() -> int:
    """Decode a small capture, so that the loops are compiled before forking."""
    return sum(
        rows.requests.num_rows
        for table, batch in read_file(small_capture(), "warm")
        if table is Table.PAIRS
        for rows in decode_typed(batch)
        if rows.requests is not None
    )


if __name__ == "__main__":
    warm_up()
    # Workers collect garbage after every task; frozen objects are excluded, which saves a third.
    gc.collect()
    gc.freeze()
    manager()
