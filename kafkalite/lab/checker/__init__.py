"""The checker: what became of every record, by rules over the history of a cluster."""
