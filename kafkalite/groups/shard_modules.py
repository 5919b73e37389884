"""The modules of group shards, imported in steps between which other requests are served.

The first FindCoordinator for a group needs some 140 modules. Imported at once, they would delay
the other clients by the time of half a start.
"""

from __future__ import annotations

from importlib import import_module
from sys import modules
from typing import Final

from kafkalite.ports import turns

SHARD_MODULE: Final = "kafkalite.groups.shard"

STEPS: Final = (
    "classic.group",
    "classic.rebalance",
    "classic.groups",
    "consumer.member",
    "modern.topics",
    "consumer.consumer_group_records",
    "consumer.group",
    "migration.upgrade",
    "consumer.sessions",
    "consumer.target",
    "consumer.heartbeat",
    "consumer.groups",
    "migration.members",
    "offsets",
    "share.share_group_records",
    "share.describe",
    "share.groups",
    "streams.member",
    "streams.streams_group_records",
    "streams.descriptions",
    "streams.admission",
    "streams.configured_topology",
    "streams.groups",
    "shard",
)
"""Modules of `kafkalite.groups`, each after those that it imports."""


def are_loaded() -> bool:
    """Return whether a shard can be created without importing modules."""
    return SHARD_MODULE in modules


def load() -> None:
    """Import the modules, unless they are loaded, with a pause after each step."""
    if are_loaded():
        return
    for step in STEPS:
        import_module(f"kafkalite.groups.{step}")
        turns.pause()
