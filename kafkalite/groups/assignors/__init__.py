"""Assignors: pure choices of which member of a group should have which partitions."""
