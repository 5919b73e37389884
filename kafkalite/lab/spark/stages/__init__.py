"""The parts of the pipeline that run in Spark's workers; no module here starts a session."""
