"""Tests of `kafkalite.lab.file_console`."""
