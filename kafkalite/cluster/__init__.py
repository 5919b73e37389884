"""The cluster and its nodes, the calls between nodes, and the outbox."""
