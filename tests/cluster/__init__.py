"""Clusters for tests, which control their time: `TestCluster`, and clusters for one family.

`TestCluster` in `cluster` has all parts of a cluster, and requests as bytes. `transactions`,
`share_groups` and `shares` add clients to it. `groups` and `consumers` have only coordinators of
groups, `metadata` only the controller, and `sasl` only a listener. `served` has sockets.
"""
