"""Request handlers about security: authentication, SCRAM credentials, ACLs, quotas."""
