#!/usr/bin/env python3
"""A Spark application that copies a topic to another topic and to Parquet files.

    orders.py BOOTSTRAP SOURCE SINK DIRECTORY [--until-read]

Records of SOURCE go to SINK and, with their positions, to Parquet files in DIRECTORY. Both queries
use Structured Streaming with checkpoints in DIRECTORY, so a killed run can be continued. With
--until-read it ends after the records that exist at its start. It needs Spark's own Kafka
connector: `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORDS_A_STEP = 250
"""Small enough for several micro-batches per run, so that tests can kill it in between."""


def main() -> None:
    """Copy until all records are read, or until killed."""
    asked = _arguments()
    spark = SparkSession.builder.appName("orders").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", asked.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", asked.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", RECORDS_A_STEP)
        .load()
    )
    queries = [
        _triggered(writer, until_read=asked.until_read).start()
        for writer in (_to_topic(records, asked), _to_files(records, asked))
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="orders.py")
    for name in ("bootstrap", "source", "sink", "directory"):
        parser.add_argument(name)
    parser.add_argument("--until-read", action="store_true")
    return parser.parse_args()


def _to_topic(records: DataFrame, asked: argparse.Namespace) -> DataStreamWriter:
    return (
        records.select("key", "value", "headers")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", asked.bootstrap)
        .option("includeHeaders", "true")
        .option("topic", asked.sink)
        .option("checkpointLocation", f"{asked.directory}/checkpoints/topic")
    )


def _to_files(records: DataFrame, asked: argparse.Namespace) -> DataStreamWriter:
    return (
        records.writeStream.format("parquet")
        .option("path", f"{asked.directory}/records")
        .option("checkpointLocation", f"{asked.directory}/checkpoints/files")
    )


def _triggered(writer: DataStreamWriter, *, until_read: bool) -> DataStreamWriter:
    if until_read:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime="200 milliseconds")


if __name__ == "__main__":
    main()
