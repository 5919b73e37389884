"""The controller's machine: topics, configuration, brokers and epochs, kept as KRaft records."""
