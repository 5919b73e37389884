"""Tests of `kafkalite.lab.replay`, and builders of captures for them."""
