"""Real Kafka clients, none of them ours, driven through one story each."""
