"""Sweep: a command runs again and again, each time with one failure at one of its requests."""
