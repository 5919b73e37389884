"""Checks that Spark can read the output folder, and that executors can reach paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.lab.spark.access_checks import check_paths_are_shared, check_table_access
from kafkalite.lab.spark.locations import LocationError, location

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NO_SESSION = cast("SparkSession", None)


@pytest.mark.parametrize("name", ["o[1]", "o*", "o?", "{a,b}", "o\\"])
def test_folder_with_pattern_characters_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LocationError, match="as a pattern"):
        check_table_access(NO_SESSION, location(f"{tmp_path}/{name}/below"))


@pytest.mark.parametrize("name", ["a b", "a,b", "a%20b", "a#b", "a\nb"])
def test_folder_with_other_special_characters_is_accepted(tmp_path: Path, name: str) -> None:
    check_table_access(NO_SESSION, location(f"{tmp_path}/{name}"))


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://cluster:6443"])
def test_path_of_this_machine_is_refused_for_remote_executors(master: str) -> None:
    with pytest.raises(LocationError, match=r"^/captures: a path of this .* file:///captures if"):
        check_paths_are_shared(master, ["s3://bucket/captures", "/captures"])
    check_paths_are_shared(master, ["s3://bucket/captures", "file:///captures", "hdfs://a/b"])


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[1,1,512]", "spark://127.0.0.1:7077"])
def test_path_of_this_machine_is_accepted_for_its_executors(master: str) -> None:
    check_paths_are_shared(master, ["/captures", "captures"])
