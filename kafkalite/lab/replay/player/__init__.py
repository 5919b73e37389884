"""Replay a capture on a broker, and check each response against the recorded one."""
