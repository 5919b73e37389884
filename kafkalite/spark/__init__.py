"""The data pipeline: captures and logs as Spark tables, and the audits over them.

Nothing else in kafkalite imports pyspark.
"""
