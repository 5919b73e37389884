"""Exchanges: requests paired with their responses, also across files, and decoded."""
