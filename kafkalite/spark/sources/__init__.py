"""Captures and data directories as Python data sources of Spark; read by its workers."""
