"""The group coordinator's machine: membership, assignments, committed offsets."""
