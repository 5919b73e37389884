"""The log: Kafka's own files on disk, and nothing that waits."""
