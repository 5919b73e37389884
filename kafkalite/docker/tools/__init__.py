"""Small programs with the names and the options of Kafka's tools, for health checks and scripts."""
