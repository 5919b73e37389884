"""Tests of the wheel, the source distribution and the build in one file."""
