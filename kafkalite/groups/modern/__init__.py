"""Common code of consumer, share and streams groups: groups with epochs.

Kafka calls these groups modern, in contrast to classic groups.
"""
