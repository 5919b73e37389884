"""One scenario, two brokers: what a real Kafka answers is what kafkalite must answer."""
