"""Tests of the replay, and captures made of messages for them."""
