"""Configuration keys with defaults and validators, and typed views of the values."""
