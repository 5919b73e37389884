"""The judges' machinery: a real Kafka from its jars, and kafkalite as users start it."""
