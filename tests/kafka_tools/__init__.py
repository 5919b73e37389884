"""All command-line tools of Kafka's distribution, with kafkalite and with a real Kafka."""
