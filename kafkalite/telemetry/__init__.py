"""Client telemetry (KIP-714): subscriptions of clients, and the metrics that they push."""
