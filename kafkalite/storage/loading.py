"""A log's directory → its segments, epochs and producers, whatever state it was left in.

After a clean shutdown the files are believed, as long as the last one ends where a batch does.
Otherwise the segments that were not flushed are read through, cut where they stop being
believable, and indexed anew.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.ports.files import join
from kafkalite.storage.epochs import LeaderEpochs
from kafkalite.storage.naming import parse_file_name
from kafkalite.storage.producer_state import ProducerStateTable
from kafkalite.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment, segment_name
from kafkalite.storage.snapshot import load_snapshot
from kafkalite.storage.swap import settle_swaps

if TYPE_CHECKING:
    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.files import Files
    from kafkalite.storage.batch import BatchView

EPOCHS_FILE = "leader-epoch-checkpoint"


class LoadedLog(NamedTuple):
    """What a log's directory holds."""

    segments: list[Segment]
    end_offset: int
    epochs: LeaderEpochs
    producers: ProducerStateTable
    cut_bytes: int
    """How much was not believed, and is gone."""


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
    """Return what the directory holds, recovered from `recovery_point` on if need be.

    Without a segment the log ends at `start_offset`; so it does when all that is left of it lies
    before that, as after a loss of power.
    """
    names = settle_swaps(files, directory)
    if not names:
        return LoadedLog([], start_offset, LeaderEpochs(), ProducerStateTable(), 0)
    segments = _open_segments(files, directory, names, config, now_ms)
    epochs = LeaderEpochs.load(files, join(directory, EPOCHS_FILE))
    recovered_from = None
    found_bytes = sum(segment.size for segment in segments)
    if segments and not (clean_shutdown and segments[-1].end()[0] == segments[-1].size):
        may_have_gaps = "compact" in config.cleanup_policy
        recovered_from = _recover(segments, recovery_point, epochs, may_have_gaps=may_have_gaps)
    cut_bytes = found_bytes - sum(segment.size for segment in segments)
    end_offset = segments[-1].end()[1] if segments else start_offset
    if end_offset < start_offset:
        for segment in reversed(segments):
            segment.remove()
        segments, end_offset = [], start_offset
    epochs.truncate_from_end(end_offset)
    producers = _load_producers(files, directory, segments, end_offset, recovered_from)
    return LoadedLog(segments, end_offset, epochs, producers, cut_bytes)


def _open_segments(
    files: Files, directory: str, names: list[str], config: LogConfig, now_ms: int
) -> list[Segment]:
    named = [found for found in map(parse_file_name, names) if found is not None]
    bases = {offset for offset, suffix in named if suffix == LOG_SUFFIX}
    for offset, suffix in named:
        if suffix in INDEX_SUFFIXES and offset not in bases:
            files.remove(join(directory, segment_name(offset, suffix)))
    segments = []
    for base_offset in sorted(bases):
        segment = Segment(files, directory, base_offset, config.index_interval_bytes)
        segment.created_ms = now_ms
        segments.append(segment)
    return segments


def _recover(
    segments: list[Segment], recovery_point: int, epochs: LeaderEpochs, *, may_have_gaps: bool
) -> int:
    """Rebuild what was not flushed, dropping all behind the first damage; return its start.

    A segment that ends before the next one begins lost its tail with the power, unless compaction
    left it so: segments of compacted logs are flushed before the next one is begun.
    """

    def note_epoch(batch: BatchView) -> None:
        if batch.leader_epoch > epochs.latest:
            epochs.assign(batch.leader_epoch, batch.base_offset)

    # The first segment that reaches beyond the recovery point.
    ends = [later.base_offset for later in segments[1:]]
    first_slot = bisect_right(ends, recovery_point)
    for slot in range(first_slot, len(segments)):
        segment = segments[slot]
        segment.aborted.clear()
        end, next_offset = segment.rebuild(note_epoch)
        is_whole = end == segment.size
        is_last = slot + 1 == len(segments)
        if is_whole and (is_last or may_have_gaps or next_offset == ends[slot]):
            continue
        # The newest goes first and the damage last: whoever dies here finds the damage again.
        for later in reversed(segments[slot + 1 :]):
            later.remove()
        del segments[slot + 1 :]
        segment.cut(end)
        break
    return segments[first_slot].base_offset


def _load_producers(
    files: Files,
    directory: str,
    segments: list[Segment],
    end_offset: int,
    recovered_from: int | None,
) -> ProducerStateTable:
    """Return the producers as of the end of the log; what was recovered is replayed."""
    newest = end_offset if recovered_from is None else recovered_from
    snapshot_offset, producers = load_snapshot(files, directory, newest)
    start = -1 if snapshot_offset is None else snapshot_offset
    if start == end_offset:
        return producers
    for slot, segment in enumerate(segments):
        if slot + 1 < len(segments) and segments[slot + 1].base_offset <= start:
            continue
        is_recovered = recovered_from is not None and segment.base_offset >= recovered_from
        for _, batch in segment.batches(segment.locate(start)):
            ended = producers.update(batch)
            if ended is not None and ended.is_aborted and is_recovered:
                segment.aborted.append(ended)
    return producers
