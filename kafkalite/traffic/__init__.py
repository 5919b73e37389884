"""Tools for recorded Kafka traffic: read and write it, decode it, record, replay and analyse it."""
