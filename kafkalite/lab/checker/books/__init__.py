"""The books of brokers: data directories of kafkalite or of Kafka, and rules about them."""
