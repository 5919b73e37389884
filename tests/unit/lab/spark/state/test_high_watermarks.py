"""High watermarks by bucket of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.state.high_watermarks import highest_by_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_responses_with_the_name_and_with_the_id_of_a_topic_are_one_row(
    spark: SparkSession,
) -> None:
    observed = spark.createDataFrame(
        [("t", None, 0, 10, 50), (None, "AB", 0, 10, 5), (None, "AB", 0, 20, 7)],
        "topic string, topic_id string, partition int, bucket_us bigint, high_watermark bigint",
    )
    topics = spark.createDataFrame([("AB", "t")], "topic_id string, topic string")
    found = highest_by_bucket(observed, topics).collect()
    assert sorted(map(tuple, found)) == [("t", 0, 10, 50), ("t", 0, 20, 7)]
