"""TCP segments of packets, and the connections to which they belong."""
