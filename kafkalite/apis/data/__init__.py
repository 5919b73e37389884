"""Handlers that write, read and delete records."""
