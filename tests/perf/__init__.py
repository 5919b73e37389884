"""Benchmarks. They are run by hand, except for the small versions that pytest runs."""
