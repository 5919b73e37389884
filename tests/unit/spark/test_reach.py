"""What Spark could not read again is refused before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.reach import reach_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOBODYS = cast("SparkSession", None)


@pytest.mark.parametrize("name", ["o[1]", "o*", "o?", "{a,b}", "o\\"])
def test_a_folder_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlaceError, match="for a pattern"):
        reach_tables(NOBODYS, place(f"{tmp_path}/{name}/below"))


@pytest.mark.parametrize("name", ["a b", "a,b", "a%20b", "a#b", "a\nb"])
def test_any_other_name_will_do(tmp_path: Path, name: str) -> None:
    reach_tables(NOBODYS, place(f"{tmp_path}/{name}"))
