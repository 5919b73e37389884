"""The Kafka protocol of one connection, without sockets: frames, headers and sessions."""
