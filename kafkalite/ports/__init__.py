"""Interfaces to the outside world: time, randomness, files and threads."""
