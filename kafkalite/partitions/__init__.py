"""The data plane: partitions, who reads them, who waits for them, and what a session remembers."""
