"""Requests meet machines: one module per API family, plain functions, no waiting."""
