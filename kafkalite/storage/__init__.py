"""Logs in Kafka's file format; all functions are synchronous."""
