"""OffsetAndMetadata: one committed offset."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.protocol.uuids import ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """What was committed for one partition, and when (ms since the epoch)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Only clients of old (OffsetCommit v2 to v4) say when their offset shall expire."""
    topic_id: bytes = ZERO_UUID
