"""One small program per client library, all with the same JSON lines."""
