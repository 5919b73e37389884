"""Classic groups: members send JoinGroup and SyncGroup, and their leader assigns."""
