"""Recording of connections into capture files, by the broker and by the proxy."""
