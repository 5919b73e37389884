"""Groups of share partition states whose snapshots fit into one batch of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.shares.state import ShareKey, ShareState

_MAX_GROUP_BYTES = 400_000
"""Estimated limit of one group; the log accepts up to `max.message.bytes`: a million."""

_MAX_STATE_BYTES = 100
_MAX_STATE_BATCH_BYTES = 24
"""Upper bounds of a record's size without its group id, and of each batch in it."""


def snapshot_batches(
    states: Iterable[tuple[ShareKey, ShareState]], max_bytes: int = _MAX_GROUP_BYTES
) -> Iterator[list[ShareKey]]:
    """Yield the keys of states in groups whose snapshots fit into one batch."""
    keys: list[ShareKey] = []
    size = 0
    for key, state in states:
        name_bytes = len(key.group_id.encode("utf-8", "surrogatepass"))
        state_bytes = _MAX_STATE_BYTES + name_bytes + _MAX_STATE_BATCH_BYTES * len(state.batches)
        if keys and size + state_bytes > max_bytes:
            yield keys
            keys, size = [], 0
        keys.append(key)
        size += state_bytes
    if keys:
        yield keys
