"""Kafka's own integration tests of Streams and Connect, with kafkalite as their cluster."""
