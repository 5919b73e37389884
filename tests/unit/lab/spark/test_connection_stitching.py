"""Text of the step that joins connections. `tests/spark/test_pipeline.py` tests the result."""

from __future__ import annotations

from kafkalite.lab.spark.connection_stitching import step_text
from kafkalite.lab.spark.locations import InputFile
from kafkalite.lab.spark.manifest import InputSplit


def split(*names: str) -> InputSplit:
    return InputSplit(inputs=tuple(InputFile(url=name, size=1, modified_ns=1) for name in names))


def test_step_names_several_files_only_if_there_are_several() -> None:
    assert step_text([split("a"), split("a")]) == "joining connections"
    assert step_text([split("a", "b"), split("c")]) == "joining connections across 3 files"
