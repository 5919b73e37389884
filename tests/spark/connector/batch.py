"""A Spark application that writes rows to a topic in one batch and reads them with all options.

batch.py BOOTSTRAP TOPIC ROWS: prints the rows it read as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(bootstrap: str, topic: str, rows: str) -> None:
    """Write the rows, read them, and print the results."""
    spark = SparkSession.builder.appName("batch").getOrCreate()
    written = spark.range(int(rows)).selectExpr(
        "cast(id as string) as key",
        "if(id % 10 = 0, null, concat('value ', id)) as value",
        "array(struct('id' as key, cast(cast(id as string) as binary) as value)) as headers",
        "cast(id % 3 as int) as partition",
    )
    (
        written.write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("includeHeaders", "true")
        .option("topic", topic)
        .save()
    )

    def read(**options: str) -> DataFrame:
        return (
            spark.read.format("kafka")
            .options(includeHeaders="true", **{"kafka.bootstrap.servers": bootstrap}, **options)
            .load()
        )

    everything = read(subscribe=topic)
    timestamps = [row.ts for row in everything.selectExpr("unix_millis(timestamp) as ts").collect()]
    result = {
        "records": sorted(
            [row.key, row.value, row.partition, row.offset, row.header]
            for row in everything.selectExpr(
                "cast(key as string) as key",
                "cast(value as string) as value",
                "partition",
                "offset",
                "cast(headers[0].value as string) as header",
            ).collect()
        ),
        "matched": read(subscribePattern=f"{topic[:-1]}.").count(),
        "assigned": read(assign=json.dumps({topic: [1]})).count(),
        "cut": read(
            subscribe=topic,
            startingOffsets=json.dumps({topic: {"0": 5, "1": -2, "2": 98}}),
            endingOffsets=json.dumps({topic: {"0": 9, "1": 4, "2": -1}}),
        ).count(),
        "since": read(subscribe=topic, startingTimestamp=str(min(timestamps))).count(),
        "after": read(
            subscribe=topic,
            startingTimestamp=str(max(timestamps) + 1),
            startingOffsetsByTimestampStrategy="latest",
        ).count(),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
