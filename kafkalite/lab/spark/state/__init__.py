"""State over time, rebuilt from requests and responses: groups, transactions, metadata.

A broker decides between the arrival of a request and its response, and a capture shows only these
two times. So every row of state has both. If a result depends on the order of two events whose
intervals overlap, the audits report it as undecidable.
"""
