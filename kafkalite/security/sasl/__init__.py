"""SASL: the server's side of the mechanisms, without I/O."""
