"""`kafkalite.capture`: captures as tables of Spark, in batches and as a stream.

    spark.read.format("kafkalite.capture").option("api", "OffsetCommit").load("captures/")

A file is read by itself: a request whose answer lies in another file is without one here, and of a
frame that lies in two there are only `fragments`. `kafkalite audit` joins such ends over all files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.spark.sources.contract import FileSource
from kafkalite.spark.sources.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.sources.contract import Question

NAME: Final = "kafkalite.capture"


class CaptureSource(FileSource):
    """Captures, as the options of `rows` say."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return NAME

    def question(self, columns: Mapping[str, bool] | None = None) -> Question:
        """Understand the options."""
        return Rows(self.options, columns)
