"""Kafka's own Java codec and its own definitions, as judges of the wire format."""
