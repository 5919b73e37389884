"""Conformance tests: scenarios whose answers by a real Kafka and by kafkalite are compared."""
