"""A Spark application: audits captures of a store into the store, and reads them by their source.

application.py URL FOLDER CONF: prints what it found as one line of JSON; CONF is Spark's, as JSON.
What is in FOLDER/in is audited into FOLDER/out, to compare with.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from kafkalite.spark import register
from kafkalite.spark.pipeline import Job, audit
from kafkalite.spark.places import place
from kafkalite.spark.requests import Requests
from kafkalite.spark.session import start


def main(url: str, folder: str, conf: str) -> None:
    """Audit by name, twice, and by Spark; read; tell."""
    spark = start("local[2]", json.loads(conf), quick=True)
    captures = f"{url}/captures"
    by_name = Job(inputs=(captures,), out=f"{url}/out", audits=("fencing",), lot_bytes=1)
    here = replace(by_name, inputs=(f"{folder}/in",), out=f"{folder}/out")
    # What it writes lies below what it reads, and is left out.
    by_spark = Job(inputs=(captures,), out=f"{captures}/by-spark", audits=(), by_spark=True)
    register(spark)
    source = spark.read.format("kafkalite.capture").option("table", "frames")
    frames = [source.load(f"{captures}{below}").count() for below in ("", "/part-[01]*")]
    runs = [audit(spark, job) for job in (here, by_name, by_name, by_spark, by_spark)]
    told = {
        "read": [run.read for run in runs],
        "requests": [run.requests for run in runs],
        "report": runs[2].report,
        "quarantined": [*runs[2].quarantined],
        "read back": [
            Requests.read(spark, place(job.out)).envelopes().count() for job in (by_name, by_spark)
        ],
        "frames": frames,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
