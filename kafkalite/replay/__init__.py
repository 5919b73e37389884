"""Captures played again: against a broker, as a broker, and one compared with another."""
