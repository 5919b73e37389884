"""Clusters without sockets for tests: `TestCluster`, and clusters with clients of one family."""
