"""`kafkalite.capture`: captures as Spark tables, in batches and as a stream.

    spark.read.format("kafkalite.capture").option("api", "OffsetCommit").load("captures/")

Each file is read by itself. If the response to a request is in another file, the request has no
response here. The parts of a frame that spans two files are only in `fragments`. `kafkalite audit`
joins them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.sources.file_source import FileSource
from kafkalite.lab.spark.sources.rows import CaptureReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.spark.sources.file_source import FileReader

NAME: Final = "kafkalite.capture"


class CaptureSource(FileSource):
    """Data source of captures, `kafkalite.capture`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def file_reader(self, columns: Mapping[str, bool] | None = None) -> FileReader:
        """Parse the options."""
        return CaptureReader(self.options, columns)
