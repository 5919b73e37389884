"""Handlers of idempotent and transactional producers."""
