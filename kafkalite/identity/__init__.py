"""An identity provider for tests: clients, signing keys and tokens of OAuth 2.0 (RFC 6749)."""
