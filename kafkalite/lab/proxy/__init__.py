"""A recording proxy in front of a cluster, with one listener per node."""
