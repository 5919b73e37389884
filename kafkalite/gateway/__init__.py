"""The path of every request: decode, steps, handler, encode."""
