"""CommitFilter: finds the batches whose commits may change whether a condition is true.

The offsets of all commits of one partition in a chunk are found by one regular expression, and
compared at once. Other bytes may look like such a commit, so each batch that is found is decoded.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kafkalite.control.time_travel.conditions import truths
from kafkalite.control.time_travel.replay import commit_needle
from kafkalite.groups.pending_offsets import OffsetKey
from kafkalite.storage.batch import BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.control.time_travel.commits import CommitReplay
    from kafkalite.control.time_travel.conditions import Call, Condition

_VALUE: Final = rb"(?:[\x14-\x7f]|[\x80-\xff]{1,4}[\x01-\x7f])\x00[\x00-\x04](.{8})"
"""Length of at least ten bytes, version and offset of a commit, after its key."""


class CommitFilter:
    """Applies the commits of a chunk, and yields the batches that may change a condition."""

    def __init__(self, condition: Condition, call: Call, replay: CommitReplay) -> None:
        """`call` is the only one in the condition, and the only one that the replay follows."""
        group_id, topic = call.names
        self._condition = condition
        self._key = OffsetKey(group_id, topic, call.partition)
        self._needle = commit_needle(*self._key)
        self._replay = replay
        self._pattern = re.compile(re.escape(self._needle) + _VALUE, re.DOTALL)

    def batches(self, chunk: bytes, starts: Sequence[int]) -> Iterator[BatchView] | None:
        """Return the batches that a reader must apply; all others are applied, or do not matter.

        `starts` are the positions of all batches in the chunk, which are plain: no one is
        compressed, transactional or a marker. Returns None if commits in the chunk do not have the
        expected form. Each batch must be applied before the next one is requested.
        """
        found = self._pattern.findall(chunk)
        if len(found) != chunk.count(self._needle):
            return None
        return self._changing(chunk, starts, found) if found else iter(())

    def _changing(
        self, chunk: bytes, starts: Sequence[int], found: Sequence[bytes]
    ) -> Iterator[BatchView]:
        offsets = struct.unpack(f">{len(found)}q", b"".join(found))
        truth = truths(self._condition, offsets)
        ends = [*starts[1:], len(chunk)]
        matches: list[int] = []
        first = 0
        while first < len(found):
            changed = truth.find(0 if self._is_true() else 1, first)
            if changed < 0:
                break
            matches = matches or [each.start() for each in self._pattern.finditer(chunk)]
            slot = bisect_right(starts, matches[changed]) - 1
            self._apply_last(
                chunk, starts, ends, matches[first : bisect_left(matches, starts[slot])]
            )
            yield BatchView(memoryview(chunk)[starts[slot] : ends[slot]])
            first = bisect_left(matches, ends[slot])
        if first < len(found):
            last = matches or [chunk.rfind(self._needle)]
            if not self._apply_last(chunk, starts, ends, last[first if matches else 0 :]):
                matches = [each.start() for each in self._pattern.finditer(chunk)]
                self._apply_last(chunk, starts, ends, matches[first:])

    def _is_true(self) -> bool:
        offset = self._replay.machine.offsets.get(self._key)
        return self._condition.is_true(lambda _: offset)

    def _apply_last(
        self, chunk: bytes, starts: Sequence[int], ends: Sequence[int], matches: Sequence[int]
    ) -> bool:
        """Apply the batch with the last commit at these positions; False if there is none."""
        for position in reversed(matches):
            slot = bisect_right(starts, position) - 1
            batch = BatchView(memoryview(chunk)[starts[slot] : ends[slot]])
            if list(self._replay.apply(batch)):
                return True
        return False
