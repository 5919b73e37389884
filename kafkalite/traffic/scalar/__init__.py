"""Writing and reading of captures, connection by connection: pcapng files, frames and exchanges.

Captures are standard pcapng files. Every packet tool can read kafkalite's captures, and kafkalite
reads captures of every packet tool.
"""
