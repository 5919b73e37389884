"""A recording proxy in front of a cluster: every node gets a listener, every byte is kept."""
