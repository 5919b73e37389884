"""Transactions: producers, partitions and ends of transactional ids (KIP-98, KIP-890).

The state machines do not write markers. They request markers by intents, and are notified when the
markers are written.
"""
