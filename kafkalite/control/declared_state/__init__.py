"""Declared state: what a cluster contains at its start, as a file or a mapping."""
