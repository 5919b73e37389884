"""Workers on this machine begin with what they need already imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.spark.daemon import warm_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_a_worker_has_the_decoder_from_the_process_that_it_was_forked_from(
    spark: SparkSession,
) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc  # noqa: PLC0415 - what the worker has
        import os  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {
                    "daemon": [parent[2].decode()],
                    "is_there": ["kafkalite.columnar.reading" in sys.modules],
                    "is_kept": [gc.get_freeze_count() > 0],
                }
            )

    [row] = (
        spark.range(1, numPartitions=1)
        .mapInArrow(tell, "daemon string, is_there boolean, is_kept boolean")
        .collect()
    )
    assert (row.daemon, row.is_there, row.is_kept) == ("kafkalite.spark.daemon", True, True)


def test_warming_up_goes_all_the_way_to_a_typed_request() -> None:
    assert warm_up() == 1
