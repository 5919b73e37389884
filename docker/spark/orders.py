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

MAX_RECORDS_PER_BATCH = 250
"""Small, so that a run has several micro-batches and tests can kill it between two of them."""


def main() -> None:
    """Copy until all records are read, or until killed."""
    arguments = _arguments()
    spark = SparkSession.builder.appName("orders").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", arguments.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", MAX_RECORDS_PER_BATCH)
        .load()
    )
    queries = [
        _with_trigger(writer, until_read=arguments.until_read).start()
        for writer in (_topic_writer(records, arguments), _file_writer(records, arguments))
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


def _topic_writer(records: DataFrame, arguments: argparse.Namespace) -> DataStreamWriter:
    return (
        records.select("key", "value", "headers")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("includeHeaders", "true")
        .option("topic", arguments.sink)
        .option("checkpointLocation", f"{arguments.directory}/checkpoints/topic")
    )


def _file_writer(records: DataFrame, arguments: argparse.Namespace) -> DataStreamWriter:
    return (
        records.writeStream.format("parquet")
        .option("path", f"{arguments.directory}/records")
        .option("checkpointLocation", f"{arguments.directory}/checkpoints/files")
    )


def _with_trigger(writer: DataStreamWriter, *, until_read: bool) -> DataStreamWriter:
    if until_read:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime="200 milliseconds")


if __name__ == "__main__":
    main()
