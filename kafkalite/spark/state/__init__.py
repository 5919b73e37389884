"""State over time, rebuilt from requests and their answers: groups, transactions, metadata.

A broker decides at some moment between the arrival of a request and its answer, and a capture
has only those two. So every row of state carries both; what depends on the order of two such
spans that overlap is called undecidable by the audits, never guessed.
"""
