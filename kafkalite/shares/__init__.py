"""Data plane of share groups (KIP-932): acquisition, acknowledgement and stored state."""
