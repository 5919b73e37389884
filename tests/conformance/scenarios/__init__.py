"""The scenarios, by subject; each module lists its own in `SCENARIOS`."""
