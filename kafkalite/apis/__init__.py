"""Request handlers: one module per API family; plain functions that do not wait."""
