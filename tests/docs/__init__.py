"""Tests of the documentation: code blocks, generated pictures, the site."""
