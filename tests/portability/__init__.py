"""Tests that hide what only POSIX systems have, and run the core of the suite without it."""
