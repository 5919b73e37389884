"""Consumer groups of KIP-848: the coordinator assigns, members follow heartbeat by heartbeat."""
