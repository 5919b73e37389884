"""Spark's Python data sources for captures and data directories."""
