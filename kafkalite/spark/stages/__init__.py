"""The steps of the pipeline that Spark's workers take; no module here starts a session."""
