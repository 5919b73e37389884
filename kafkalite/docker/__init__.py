"""The programs of the Docker image, and the environments of other Kafka images."""
