"""Scoreboards of admin clients: every method and option, at kafkalite and at a real Kafka."""
