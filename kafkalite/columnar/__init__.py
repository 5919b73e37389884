"""Captures and logs to Arrow, a column at a time; needs numpy and pyarrow, knows no Spark.

What is said here of a frame equals what `capture` and the scalar codecs say, by test.
"""
