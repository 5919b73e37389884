"""The scenarios of three nodes, by subject; each module lists its own in `SCENARIOS`."""
