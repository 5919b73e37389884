"""Transactions: producers, partitions and ends of transactional ids (KIP-98, KIP-890).

Contains state machines only: they request markers as intents, and are notified when the markers
are written.
"""
