"""Portions: states of share partitions that are written together, in one batch of the log each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.shares.state import ShareKey, ShareState

_MOST_BYTES = 400_000
"""Of one portion, as estimated here; the log takes no more than `max.message.bytes`: a million."""

_BYTES_OF_STATE = 100
_BYTES_OF_BATCH = 24
"""What a record takes at most besides its group's name, and for each batch it tells of."""


def portions(
    states: Iterable[tuple[ShareKey, ShareState]], most_bytes: int = _MOST_BYTES
) -> Iterator[list[ShareKey]]:
    """Yield the keys of states in portions whose snapshots fit into one batch, and so do less."""
    keys: list[ShareKey] = []
    size = 0
    for key, state in states:
        name_bytes = len(key.group_id.encode("utf-8", "surrogatepass"))
        state_bytes = _BYTES_OF_STATE + name_bytes + _BYTES_OF_BATCH * len(state.batches)
        if keys and size + state_bytes > most_bytes:
            yield keys
            keys, size = [], 0
        keys.append(key)
        size += state_bytes
    if keys:
        yield keys
