"""kafkalite inside a test: a broker in this process, and doors to drive time, chance and disks."""
