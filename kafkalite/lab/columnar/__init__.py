"""Captures and logs as Arrow tables, decoded column by column; needs numpy and pyarrow, not Spark.

`reading.CaptureReader` is the entry. It reads `files`, finds TCP `segments` and Kafka `frames`,
pairs them to `exchanges`, and uses `decoding` for messages. `records` reads batches of records.
Tests check that the results equal those of `capture.reading` and the scalar codecs.
"""
