"""Handlers that describe and alter settings."""
