"""The wire format compared with Kafka's Java codec and its message definitions."""
