"""Tests of groups in captures."""
