"""Tests of the checker, with a simulated cluster."""
