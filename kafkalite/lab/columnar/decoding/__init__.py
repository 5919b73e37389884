"""Columnar decoding of messages: plans from schemas, and the interpreter that runs them."""
