"""Comparison of two captures: APIs, versions, errors and fields that differ."""
