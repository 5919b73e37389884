"""Integration tests of Streams, Connect and clients of Kafka, with kafkalite as their cluster."""
