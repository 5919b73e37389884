"""Groups that pass from the classic to the consumer protocol and back, with members (KIP-848)."""
