"""The controller's state machine: topics, configuration and brokers, stored as KRaft records."""
