"""Load a log from its directory: segments, leader epochs and producers, after any crash.

After a clean shutdown the files are trusted if the last one ends at a batch boundary. Otherwise the
segments that were not flushed are read and indexed again. An incomplete last write is truncated: it
was not acknowledged. Damage in acknowledged records is reported and not truncated, unless a loss of
power can be the reason: then the log ends at the first invalid batch, as in Kafka. Flushed data is
never truncated.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.disk_health import DamagedFileError
from kafkalite.storage.file_names import parse_file_name
from kafkalite.storage.leader_epochs import LeaderEpochs
from kafkalite.storage.producer_snapshot import load_snapshot
from kafkalite.storage.producer_state import ProducerStateTable
from kafkalite.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment, segment_name
from kafkalite.storage.segment_replacement import complete_swaps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.files import Files
    from kafkalite.storage.batch import BatchView

EPOCHS_FILE = "leader-epoch-checkpoint"
UNFLUSHED_SUFFIX = ".unflushed"
"""Suffix that marks a segment of a compacted log begun before the previous one was flushed."""


class LoadedLog(NamedTuple):
    """The content of a log's directory."""

    segments: list[Segment]
    end_offset: int
    epochs: LeaderEpochs
    producers: ProducerStateTable
    truncated_bytes: int
    """Number of bytes that were truncated: an incomplete write, or records after lost ones."""
    truncated_end_offset: int
    """The offset after the last valid batch that was truncated; `end_offset` if there was none."""
    is_clean: bool
    """Whether the files are unchanged since a clean shutdown."""
    damage: DamagedFileError | None = None
    """Damage in acknowledged records; nothing was truncated, and the log accepts no records."""
    gaps: Sequence[DamagedFileError] = ()
    """Missing offsets between segments; not searched for in compacted logs, which may have gaps."""
    unflushed_offsets: tuple[int, ...] = ()
    """Base offsets of the segments marked by UNFLUSHED_SUFFIX."""


class Recovery(NamedTuple):
    """What is known about the end of the process that wrote a log, and what of it is trusted."""

    recovery_point: int
    """The offset up to which the log was flushed."""
    is_clean: bool
    """Whether the log was closed."""
    may_have_lost_writes: bool
    """Whether written bytes may be missing, because the system was stopped after an unclean end."""
    is_internal: bool
    """Whether later records depend on earlier ones, so that damage before others is reported."""


def no_files(end_offset: int = 0) -> LoadedLog:
    """Return the content of a log without files, which ends at `end_offset`."""
    return LoadedLog(
        [], end_offset, LeaderEpochs(), ProducerStateTable(), 0, end_offset, is_clean=False
    )


def load_log(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    start_offset: int,
    recovery: Recovery,
) -> LoadedLog:
    """Return the content of the directory, recovered from the recovery point on if needed.

    Without a file the log ends at `start_offset`. The same holds if all remaining segments
    are before it, as after a loss of power.
    """
    names = complete_swaps(files, directory)
    if not names:
        return no_files(start_offset)
    segments = _open_segments(files, directory, names, config, now_ms)
    epochs = LeaderEpochs.load(files, join(directory, EPOCHS_FILE))
    may_have_gaps = "compact" in config.cleanup_policy
    unflushed_offsets = _unflushed_offsets(names)
    initial_bytes = sum(segment.size for segment in segments)
    run = _RecoveryRun(recovery, segments, epochs, unflushed_offsets, may_have_gaps)
    recovered_from_offset, damage, removed_end_offset = run.recover()
    truncated_bytes = initial_bytes - sum(segment.size for segment in segments)
    end_offset = segments[-1].end()[1] if segments else start_offset
    if damage is None and max(end_offset, start_offset) < recovery.recovery_point:
        damage = _missing_end(directory, segments, end_offset, recovery.recovery_point)
    if damage is not None:
        end_offset = max(end_offset, recovery.recovery_point, removed_end_offset)
    if end_offset < start_offset:
        for segment in reversed(segments):
            segment.remove()
        segments, end_offset = [], start_offset
    epochs.truncate_from_end(end_offset)
    return LoadedLog(
        segments,
        end_offset,
        epochs,
        load_producers(files, directory, segments, end_offset, recovered_from_offset),
        truncated_bytes,
        max(end_offset, removed_end_offset),
        is_clean=recovery.is_clean and recovered_from_offset is None and bool(segments),
        damage=damage,
        gaps=() if may_have_gaps else tuple(_gaps(segments)),
        unflushed_offsets=unflushed_offsets,
    )


def _unflushed_offsets(names: list[str]) -> tuple[int, ...]:
    parsed_names = [parsed for parsed in map(parse_file_name, names) if parsed is not None]
    return tuple(offset for offset, suffix in parsed_names if suffix == UNFLUSHED_SUFFIX)


def _ends_at_batch_boundary(segment: Segment) -> bool:
    return segment.end()[0] == segment.size


def _damaged_tail(segment: Segment, recovery_point: int) -> DamagedFileError | None:
    """Return damage in the flushed part of the last segment, if the segment ends too early."""
    end, next_offset = segment.end()
    if end == segment.size or next_offset >= recovery_point:
        return None
    return segment.damage_at(end)


def _gaps(segments: list[Segment]) -> Iterator[DamagedFileError]:
    """Yield missing offsets between segments, and segments that end in a damaged batch."""
    for segment, later in pairwise(segments):
        end, next_offset = segment.end_by_index_file()
        if end != segment.size:
            yield segment.damage_at(end)
        elif next_offset != later.base_offset:
            yield _missing_segment(segment, next_offset, later.base_offset)


def _open_segments(
    files: Files, directory: str, names: list[str], config: LogConfig, now_ms: int
) -> list[Segment]:
    parsed_names = [parsed for parsed in map(parse_file_name, names) if parsed is not None]
    base_offsets = {offset for offset, suffix in parsed_names if suffix == LOG_SUFFIX}
    for offset, suffix in parsed_names:
        if suffix in INDEX_SUFFIXES and offset not in base_offsets:
            files.remove(join(directory, segment_name(offset, suffix)))
    segments = []
    for base_offset in sorted(base_offsets):
        segment = Segment(files, directory, base_offset, config.index_interval_bytes)
        segment.created_ms = now_ms
        segments.append(segment)
    return segments


class _RecoveryRun(NamedTuple):
    """The recovery of one log."""

    known: Recovery
    segments: list[Segment]
    epochs: LeaderEpochs
    unflushed_offsets: Collection[int]
    may_have_gaps: bool

    def recover(self) -> tuple[int | None, DamagedFileError | None, int]:
        """Recover the log, unless it was closed and ends at a batch boundary.

        Returns the base offset of the first recovered segment, damage in acknowledged records,
        which stays in place, and the offset after the last valid batch behind the damage or
        truncation, or 0.
        """
        if not self.segments:
            return None, None, 0
        if self.known.is_clean:
            damage = _damaged_tail(self.segments[-1], self.known.recovery_point)
            if damage is not None or _ends_at_batch_boundary(self.segments[-1]):
                return None, damage, 0
        return self._recover_segments()

    def _recover_segments(self) -> tuple[int, DamagedFileError | None, int]:
        """Index unflushed segments again, and truncate the log at an incomplete write."""
        segments = self.segments
        end_offsets = [later.base_offset for later in segments[1:]]
        first_unflushed = bisect_right(end_offsets, self.known.recovery_point)
        first_offset = segments[first_unflushed].base_offset
        for slot in range(first_unflushed, len(segments)):
            segment = segments[slot]
            segment.aborted.clear()
            end, next_offset = segment.rebuild(self._add_epoch)
            later_offset = end_offsets[slot] if slot < len(end_offsets) else None
            is_complete = end == segment.size
            if is_complete and self._may_end(next_offset, later_offset):
                continue
            removed_end_offset = max(
                segment.end_offset_after_damage(end, next_offset) or 0, *end_offsets[slot:], 0
            )
            if self._is_damage(segment, end, next_offset, is_followed=removed_end_offset > 0):
                damage: DamagedFileError = segment.damage_at(end)
                if is_complete and later_offset is not None:
                    damage = _missing_segment(segment, next_offset, later_offset)
                return first_offset, damage, removed_end_offset
            if later_offset is not None:
                removed_end_offset = max(removed_end_offset, segments[-1].rebuild()[1])
            self._truncate(slot, end)
            return first_offset, None, removed_end_offset
        return first_offset, None, 0

    def _add_epoch(self, batch: BatchView) -> None:
        if batch.leader_epoch > self.epochs.latest:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _may_end(self, next_offset: int, later_offset: int | None) -> bool:
        """Return whether a segment may end before `next_offset` if the next one begins later.

        It lost its end in a loss of power, or it was compacted. Segments of compacted logs are
        flushed before the next one is begun, unless that one is in `unflushed_offsets`. Without a
        loss of power a gap is reported, as after a clean shutdown.
        """
        return (
            later_offset is None
            or next_offset == later_offset
            or (self.may_have_gaps and later_offset not in self.unflushed_offsets)
            or (not self.known.may_have_lost_writes and next_offset >= self.known.recovery_point)
        )

    def _is_damage(
        self, segment: Segment, end: int, next_offset: int, *, is_followed: bool
    ) -> bool:
        """Return whether the bytes at `end` were acknowledged; the last stop does not explain them.

        Without a loss of power all written bytes are there, except the end of the last write.
        """
        if next_offset < self.known.recovery_point:
            return True
        if self.known.may_have_lost_writes:
            is_within_others = segment.end_offset_after_damage(end, next_offset) is not None
            return self.known.is_internal and is_within_others
        return is_followed or any(segment.complete_batches(end))

    def _truncate(self, slot: int, end: int) -> None:
        """Truncate a segment, and remove the later ones.

        Newest first and the damaged one last, so that after a crash here the damage is found again.
        """
        for later in reversed(self.segments[slot + 1 :]):
            later.remove()
        del self.segments[slot + 1 :]
        self.segments[slot].truncate(end)


def _missing_end(
    directory: str, segments: list[Segment], end_offset: int, recovery_point: int
) -> DamagedFileError:
    reason = (
        f"the flushed records with the offsets {end_offset} to {recovery_point - 1} are missing"
    )
    path = segments[-1].path(LOG_SUFFIX) if segments else directory
    return DamagedFileError(reason, path)


def _missing_segment(segment: Segment, next_offset: int, later_offset: int) -> DamagedFileError:
    reason = f"the segment with the offsets {next_offset} to {later_offset - 1} is missing"
    return DamagedFileError(reason, segment.path(LOG_SUFFIX))


def load_producers(
    files: Files,
    directory: str,
    segments: list[Segment],
    end_offset: int,
    recovered_from_offset: int | None,
) -> ProducerStateTable:
    """Return the producers at the end of the log; recovered batches are replayed."""
    max_offset = end_offset if recovered_from_offset is None else recovered_from_offset
    snapshot_offset, producers = load_snapshot(files, directory, max_offset)
    replay_start = -1 if snapshot_offset is None else snapshot_offset
    if replay_start == end_offset:
        return producers
    for slot, segment in enumerate(segments):
        if slot + 1 < len(segments) and segments[slot + 1].base_offset <= replay_start:
            continue
        is_recovered = (
            recovered_from_offset is not None and segment.base_offset >= recovered_from_offset
        )
        for _, batch in segment.complete_batches(segment.locate(replay_start)):
            completed = producers.update(batch)
            if completed is not None and completed.is_aborted and is_recovered:
                segment.aborted.append(completed)
    return producers
