"""Assignors: pure functions from members and topics to target assignments."""
