"""Tests of the books of brokers."""
