"""The pipeline, run by a Spark of its own; see the marker `spark`."""
