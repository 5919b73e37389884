"""Transactions: who may write under a transactional id, to what, and how it ends (KIP-98, KIP-890).

Machines only: they name the markers that are to be written, and are told when they were.
"""
