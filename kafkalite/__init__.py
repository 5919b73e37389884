"""kafkalite: a Kafka broker emulator for tests."""

__version__ = "0.2.0"
