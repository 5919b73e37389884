"""The audits without Spark: the part of PySpark's API that they use, computed by DuckDB.

Audits are written once, with PySpark's data frames. For small captures, starting Spark takes longer
than the audits, so these run on the data frames of this package in the same process.
"""
