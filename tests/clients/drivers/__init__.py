"""One small program per client library, all speaking the same lines of JSON."""
