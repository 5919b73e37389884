"""Tests with real Kafka clients of other projects, each run through the same scenario."""
