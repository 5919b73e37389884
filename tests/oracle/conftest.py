"""The harness's own tests use the fixtures it offers to others."""

from tests.oracle.fixtures import real_kafka

__all__ = ["real_kafka"]
