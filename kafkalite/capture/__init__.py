"""Traffic kept: pcapng files written and read, frames and exchanges made of them.

The format is the one that the world reads already, so that every tool for packets works on what
kafkalite records, and kafkalite on what every tool records.
"""
