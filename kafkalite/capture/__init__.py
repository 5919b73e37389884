"""Captures, connection by connection: their types, their files, reading and recording.

Captures are standard pcapng files. Every packet tool can read kafkalite's captures, and kafkalite
reads captures of every packet tool.
"""
