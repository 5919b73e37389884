"""Load a log from its directory: segments, leader epochs and producers, after any crash.

After a clean shutdown the files are trusted if the last one ends at a batch boundary. Otherwise the
segments that were not flushed are read, truncated at the first invalid batch and indexed again.
Flushed data is never truncated: damage in it is reported.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.ports.files import join
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
    """Number of invalid bytes that were truncated."""
    is_clean: bool
    """Whether the files are unchanged since a clean shutdown."""
    damage: DamagedFileError | None = None
    """Damage below the recovery point; nothing was truncated, and the log accepts no records."""
    gaps: Sequence[DamagedFileError] = ()
    """Missing offsets between segments; not searched for in compacted logs, which may have gaps."""
    unflushed_offsets: tuple[int, ...] = ()
    """Base offsets of the segments marked by UNFLUSHED_SUFFIX."""


def load_log(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    clean_shutdown: bool,
    start_offset: int,
    recovery_point: int,
) -> LoadedLog:
    """Return the content of the directory, recovered from `recovery_point` on if needed.

    Without a segment the log ends at `start_offset`. The same holds if all remaining segments
    are before it, as after a loss of power.
    """
    names = complete_swaps(files, directory)
    if not names:
        return LoadedLog([], start_offset, LeaderEpochs(), ProducerStateTable(), 0, is_clean=False)
    segments = _open_segments(files, directory, names, config, now_ms)
    epochs = LeaderEpochs.load(files, join(directory, EPOCHS_FILE))
    may_have_gaps = "compact" in config.cleanup_policy
    unflushed_offsets = _unflushed_offsets(names)
    recovered_from_offset = damage = None
    initial_bytes = sum(segment.size for segment in segments)
    if segments and clean_shutdown:
        damage = _damaged_tail(segments[-1], recovery_point)
    if segments and not damage and not (clean_shutdown and _ends_at_batch_boundary(segments[-1])):
        recovered_from_offset, damage = _recover(
            segments, recovery_point, epochs, unflushed_offsets, may_have_gaps=may_have_gaps
        )
    truncated_bytes = initial_bytes - sum(segment.size for segment in segments)
    end_offset = segments[-1].end()[1] if segments else start_offset
    if damage is not None:
        end_offset = max(end_offset, recovery_point)
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
        is_clean=clean_shutdown and recovered_from_offset is None and bool(segments),
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


def _recover(
    segments: list[Segment],
    recovery_point: int,
    epochs: LeaderEpochs,
    unflushed_offsets: Collection[int],
    *,
    may_have_gaps: bool,
) -> tuple[int, DamagedFileError | None]:
    """Index unflushed segments again, and truncate the log at the first damage.

    Returns the base offset of the first of them, and damage in flushed data, which stays in place.

    A segment that ends before the next one begins lost its end in a loss of power, or it was
    compacted. Segments of compacted logs are flushed before the next one is begun, unless that
    one is in `unflushed_offsets`.
    """

    def add_epoch(batch: BatchView) -> None:
        if batch.leader_epoch > epochs.latest:
            epochs.assign(batch.leader_epoch, batch.base_offset)

    end_offsets = [later.base_offset for later in segments[1:]]
    first_unflushed = bisect_right(end_offsets, recovery_point)
    for slot in range(first_unflushed, len(segments)):
        segment = segments[slot]
        segment.aborted.clear()
        end, next_offset = segment.rebuild(add_epoch)
        is_complete = end == segment.size
        is_last = slot + 1 == len(segments)
        if is_complete and (
            is_last
            or next_offset == end_offsets[slot]
            or (may_have_gaps and end_offsets[slot] not in unflushed_offsets)
        ):
            continue
        if next_offset < recovery_point:
            damage = (
                _missing_segment(segment, next_offset, end_offsets[slot])
                if is_complete
                else segment.damage_at(end)
            )
            return segments[first_unflushed].base_offset, damage
        # Newest first and the damaged one last, so that after a crash here the damage is found
        # again.
        for later in reversed(segments[slot + 1 :]):
            later.remove()
        del segments[slot + 1 :]
        segment.truncate(end)
        break
    return segments[first_unflushed].base_offset, None


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
