"""The state machine of the group coordinator: membership, assignments, committed offsets."""
