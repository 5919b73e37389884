"""A Spark application that audits captures in a store, and reads them with the data source.

application.py URL FOLDER CONF: prints results as one line of JSON; CONF has Spark's settings as
JSON. FOLDER/in is audited into FOLDER/out for comparison.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from kafkalite.lab.spark import register
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.session import start


def main(url: str, folder: str, conf: str) -> None:
    """Audit twice with each reader, read the captures, and print the results."""
    spark = start("local[2]", json.loads(conf), quick=True)
    captures = f"{url}/captures"
    by_name = Job(inputs=(captures,), out=f"{url}/out", audits=("fencing",), split_bytes=1)
    local = replace(by_name, inputs=(f"{folder}/in",), out=f"{folder}/out")
    # The output is below the input folder and must be skipped.
    by_spark = Job(inputs=(captures,), out=f"{captures}/by-spark", audits=(), read_with_spark=True)
    register(spark)
    source = spark.read.format("kafkalite.capture").option("table", "frames")
    frames = [source.load(f"{captures}{below}").count() for below in ("", "/part-[01]*")]
    runs = [audit(spark, job) for job in (local, by_name, by_name, by_spark, by_spark)]
    result = {
        "read": [run.files_read for run in runs],
        "requests": [run.requests for run in runs],
        "report": runs[2].report,
        "quarantined": [*runs[2].quarantined],
        "read back": [
            Requests.read(spark, location(job.out)).envelopes().count()
            for job in (by_name, by_spark)
        ],
        "frames": frames,
    }
    sys.stdout.write(json.dumps(result) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
