"""Tests of the Spark pipeline with a local Spark; see the marker `spark`."""
