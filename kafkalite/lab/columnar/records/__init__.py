"""Record batches and the records in them, from messages and from data directories."""
