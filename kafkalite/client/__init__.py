"""A Kafka client for the tools: connections to any broker, and requests over them."""
