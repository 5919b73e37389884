"""OffsetAndMetadata: one committed offset."""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.protocol.uuids import ZERO_UUID


class OffsetAndMetadata(NamedTuple):
    """What was committed for one partition, and when (ms since the epoch)."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp_ms: int | None = None
    """Only clients of old (OffsetCommit v2 to v4) say when their offset shall expire."""
    topic_id: bytes = ZERO_UUID
