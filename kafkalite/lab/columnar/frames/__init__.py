"""Kafka frames in the segments of connections, their headers, and the rows of tables."""
