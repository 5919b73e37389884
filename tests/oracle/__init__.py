"""Brokers for comparison tests: a real Kafka from its jars, and kafkalite as users start it."""
