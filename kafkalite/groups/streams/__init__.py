"""Streams groups: tasks of a Kafka Streams topology, assigned by the coordinator (KIP-1071)."""
