"""Handlers that create, delete and describe topics."""
