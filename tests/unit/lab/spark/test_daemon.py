"""The daemon that forks Python workers with the decoder already imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.spark.daemon import warm_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_worker_inherits_the_imported_decoder(
    spark: SparkSession,
) -> None:
    def inspect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc  # noqa: PLC0415 - runs in the worker
        import os  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {
                    "daemon": [parent[2].decode()],
                    "is_imported": ["kafkalite.lab.columnar.reading" in sys.modules],
                    "is_frozen": [gc.get_freeze_count() > 0],
                }
            )

    [row] = (
        spark.range(1, numPartitions=1)
        .mapInArrow(inspect, "daemon string, is_imported boolean, is_frozen boolean")
        .collect()
    )
    expected = ("kafkalite.lab.spark.daemon", True, True)
    assert (row.daemon, row.is_imported, row.is_frozen) == expected


def test_warm_up_decodes_a_typed_request() -> None:
    assert warm_up() == 1
