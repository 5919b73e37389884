"""Bisection: finds the record that made a condition true.

State is not monotonic, so the logs are read in their order, each record once. Logs of several
partitions are merged by the timestamps of their batches.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.time_travel.commit_filter import CommitFilter
from kafkalite.control.time_travel.commits import CommitReplay
from kafkalite.control.time_travel.conditions import calls_of, parse_condition
from kafkalite.control.time_travel.coordinator_record_text import text_of
from kafkalite.control.time_travel.points import LATEST, TimeTravelError
from kafkalite.control.time_travel.replay import new_replay, partition_of_key
from kafkalite.control.time_travel.scan import Scan
from kafkalite.control.time_travel.values import Value, log_of, read_value
from kafkalite.control.time_travel.view import PastView
from kafkalite.groups.pending_offsets import OffsetKey
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import iso_of
from kafkalite.storage.file_names import partition_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.control.time_travel.conditions import Call
    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.control.time_travel.points import Point
    from kafkalite.control.time_travel.replay import Applied, Replay
    from kafkalite.storage.batch import BatchView


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """The record that made a condition true."""

    log: Annotated[str, About("Topic and partition of the log that has the record.")]
    offset: Annotated[int, About("Offset of the record.")]
    at_ms: Annotated[int, About("Its timestamp in milliseconds since the Unix epoch.")]
    at_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    record: Annotated[str, About("The decoded record.")]
    before: Annotated[
        dict[str, object],
        About("Values of the functions in the condition before the record; null without a value."),
    ]
    after: Annotated[dict[str, object], About("The same values after the record.")]
    reasons: Annotated[
        tuple[str, ...],
        About("Entries of the history at this time about the same names, if the broker has them."),
    ]
    unknown_from: Annotated[
        int | None,
        About(
            "The first offset of which compaction has removed records, if the condition may have "
            "become true before; null if the record is the first one."
        ),
    ]

    def lines(self) -> Iterator[str]:
        """Yield the lines that a shell prints."""
        yield f"offset {self.offset} of {self.log}, {self.at_iso}"
        yield f"record: {self.record}"
        for function, value in self.after.items():
            yield f"{function}: {_shown(self.before[function])} -> {_shown(value)}"
        for reason in self.reasons:
            yield f"reason: {reason}"
        if self.unknown_from is not None:
            yield (
                "the condition may have become true before: compaction has removed records from "
                f"offset {self.unknown_from} on"
            )


def _offset_key(call: Call) -> OffsetKey:
    group_id, topic = call.names
    return OffsetKey(group_id, topic, call.partition)


def _shown(value: object) -> str:
    return "none" if value is None else f"{value}"


class _Followed(NamedTuple):
    """A log that is read, and the calls whose values are in it."""

    scan: Scan
    replay: Replay
    calls: list[Call]

    def batches(self, order: int) -> Iterator[tuple[int, int, _Followed, BatchView | None]]:
        """Yield (time, order, this, batch); None for a batch after each chunk."""
        latest_ms = -1
        for batch in self.scan:
            if batch is not None:
                latest_ms = max(latest_ms, batch.max_timestamp)
            yield latest_ms, order, self, batch


class Bisection:
    """Searches the logs of a source for the record that made a condition true."""

    def __init__(
        self, source: LogSource, text: str, *, after: Point | None = None, is_last: bool = False
    ) -> None:
        """Raise TimeTravelError for an invalid condition, and for logs that do not exist.

        Only records after the time or the offset `after` count. With `is_last`, the record is found
        that made the condition true for the last time.
        """
        self._condition = parse_condition(text)
        self._calls = calls_of(self._condition)
        self._after = after
        self._is_last = is_last
        self._image = PastView(source, LATEST).image
        self._followed = self._follow(source)
        if after is not None and after.time_ms is None and len(self._followed) > 1:
            raise TimeTravelError(
                "the functions are in several logs: --after needs a time, not an offset"
            )
        self._readers = {
            call: self._reader(call, each.replay) for each in self._followed for call in each.calls
        }
        self.found: FoundRecord | None = None

    def _follow(self, source: LogSource) -> list[_Followed]:
        by_log: dict[tuple[str, int], dict[Call, bytes | None]] = {}
        for call in self._calls:
            topic, key, needle = log_of(call, self._image)
            partition = partition_of_key(self._image, topic, key) if isinstance(key, str) else key
            by_log.setdefault((topic, partition), {})[call] = needle
        followed = []
        for (topic, partition), by_call in by_log.items():
            needles = {each for each in by_call.values() if each is not None} or None
            replay: Replay
            if all(each.function == "committed" for each in by_call):
                name = partition_directory(topic, partition)
                replay = CommitReplay(name, [_offset_key(each) for each in by_call])
            else:
                replay = new_replay(source, topic, partition, needles, self._image)
            scan = Scan(source.log(topic, partition), LATEST, replay.needles)
            if isinstance(replay, CommitReplay) and len(self._calls) == 1:
                scan.filter = CommitFilter(self._condition, self._calls[0], replay)
            followed.append(_Followed(scan, replay, list(by_call)))
        return followed

    def _reader(self, call: Call, replay: Replay) -> Callable[[], Value]:
        """Return what reads the value of a function."""
        if isinstance(replay, CommitReplay):
            return partial(replay.machine.offsets.get, _offset_key(call))
        return partial(read_value, call, replay.machine, self._image)

    def steps(self) -> Iterator[None]:
        """Search until the record is found; yields after each chunk, so that others can work.

        Afterwards, `found` is the record, None if no record made the condition true.
        """
        logs = [each.batches(order) for order, each in enumerate(self._followed)]
        batches = logs[0] if len(logs) == 1 else heapq.merge(*logs, key=itemgetter(0, 1))
        before = self._values()
        was_true = self._is_true(before)
        exact_again: set[int] = set()
        for _, order, followed, batch in batches:
            if batch is None:
                yield
                continue
            earlier = self._values() if followed.scan.filter is not None else before
            applied = [(each, self._values()) for each in followed.replay.apply(batch)]
            if not applied:
                continue
            before = applied[-1][1]
            if followed.scan.is_inexact:
                was_true = False
                continue
            unknown_from = None if order in exact_again else followed.scan.first_gap
            if unknown_from is not None:
                exact_again.add(order)
            is_true = was_true if before == earlier else self._is_true(before)
            if not self._counts(applied[-1][0]):
                was_true = is_true
                continue
            if is_true and not was_true:
                self.found = self._found_in(followed, applied, earlier, unknown_from)
                if not self._is_last:
                    return
            was_true = is_true

    def _counts(self, applied: Applied) -> bool:
        after = self._after
        if after is None:
            return True
        if after.end_offset is not None:
            return applied.offset >= after.end_offset
        assert after.time_ms is not None
        return applied.timestamp_ms > after.time_ms

    @property
    def names(self) -> list[str]:
        """The groups, transactional ids and topics in the condition."""
        return [name for call in self._calls for name in call.names]

    def result(self) -> FoundRecord:
        """Return the record that was found; raises TimeTravelError if there is none."""
        if self.found is None:
            raise TimeTravelError(self.failure)
        return self.found

    @property
    def failure(self) -> str:
        """A sentence that no record was found, with the present values."""
        values = ", ".join(f"{call} is {_shown(value)}" for call, value in self._values().items())
        return f"no record made the condition true: at the end, {values}"

    def _is_true(self, values: Mapping[Call, Value]) -> bool:
        return self._condition.is_true(values.__getitem__)

    def _values(self) -> dict[Call, Value]:
        return {call: read() for call, read in self._readers.items()}

    def _found_in(
        self,
        followed: _Followed,
        applied: Sequence[tuple[Applied, dict[Call, Value]]],
        before: dict[Call, Value],
        unknown_from: int | None,
    ) -> FoundRecord:
        """Return the record since which the condition is true to the end of its batch."""
        index = len(applied) - 1
        while index and self._is_true(applied[index - 1][1]):
            index -= 1
        record, after = applied[index]
        earlier = applied[index - 1][1] if index else before
        return FoundRecord(
            log=followed.scan.log.name,
            offset=record.offset,
            at_ms=record.timestamp_ms,
            at_iso=iso_of(max(record.timestamp_ms, 0)),
            record=text_of(followed.replay.decoded(record)),
            before={f"{call}": earlier[call] for call in self._calls},
            after={f"{call}": after[call] for call in self._calls},
            reasons=(),
            unknown_from=unknown_from,
        )
