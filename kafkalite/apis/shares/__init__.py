"""Handlers of share groups and their state (KIP-932)."""
