"""Handlers of the APIs of groups and committed offsets."""
