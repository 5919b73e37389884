"""Security: authentication, TLS, authorization."""
