"""Authorization of requests: the step that is installed if an authorizer is configured."""
