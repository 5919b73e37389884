"""Request handlers about security: ACLs, quotas."""
