"""Partitions with their logs, long polls and fetch sessions."""
