"""Captures and logs as Arrow tables, decoded column by column; needs numpy and pyarrow, not Spark.

Tests check that the results equal those of `traffic.scalar` and the scalar codecs.
"""
