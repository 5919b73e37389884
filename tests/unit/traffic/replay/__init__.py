"""Tests of `kafkalite.traffic.replay`, and builders of captures for them."""
