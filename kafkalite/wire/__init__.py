"""One connection as bytes in and bytes out: frames, headers, and whose turn it is; no sockets."""
