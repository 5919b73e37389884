"""Follows a growing capture: decodes new data in batches, and audits them."""
