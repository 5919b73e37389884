"""Request handlers about security: ACLs."""
