"""ClientWarnings: warnings about clients, limited to one line per interval, address and kind.

The first warning is written at once. Those that follow within an interval are counted, and the last
of them is written with that count when the interval ends.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.ports.clock import Clock, Timer

INTERVAL_MS: Final = 60_000
MAX_ADDRESSES: Final = 256
"""The maximum number of addresses; the warnings of all further ones are counted together."""
MAX_KINDS: Final = 32
"""The maximum number of kinds of one address; all further ones are counted together."""

_OTHERS: Final = "others"
_NUMBER: Final = r"\d+"
_KIND_LENGTH: Final = 200


def kind_of(reason: str) -> str:
    """Return the kind of a warning: the start of its reason, with # in place of each number."""
    return re.sub(_NUMBER, "#", reason[:_KIND_LENGTH])


class _Repetition:
    """The warnings of one kind from one address since the last line."""

    __slots__ = ("count", "event", "fields", "timer")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.count = 0
        self.event = ""
        self.fields: Mapping[str, object] = {}


class ClientWarnings:
    """Writes warnings by `write(event, **fields)`; intervals are measured by `clock`."""

    __slots__ = ("_clock", "_repetitions", "_write")

    def __init__(self, clock: Clock, write: Callable[..., None]) -> None:
        self._clock = clock
        self._write = write
        self._repetitions: dict[str, dict[str, _Repetition]] = {}

    def warn(self, host: str, kind: str, event: str, **fields: object) -> None:
        """Write a warning about a client at this address, or count it."""
        host = _key_within_limit(self._repetitions, host, MAX_ADDRESSES)
        kinds = self._repetitions.setdefault(host, {})
        kind = _key_within_limit(kinds, kind, MAX_KINDS)
        repetition = kinds.get(kind)
        if repetition is None:
            kinds[kind] = _Repetition(self._start_timer(host, kind))
            self._write(event, **fields)
            return
        repetition.count += 1
        repetition.event = event
        repetition.fields = fields

    def stop(self) -> None:
        """Write the counts of all warnings that were not written, and forget them."""
        repetitions, self._repetitions = self._repetitions, {}
        for kinds in repetitions.values():
            for repetition in kinds.values():
                repetition.timer.cancel()
                self._summarize(repetition)

    def _start_timer(self, host: str, kind: str) -> Timer:
        deadline_ms = self._clock.now_ms() + INTERVAL_MS
        return self._clock.call_at(deadline_ms, partial(self._end_interval, host, kind))

    def _end_interval(self, host: str, kind: str) -> None:
        kinds = self._repetitions[host]
        repetition = kinds[kind]
        if repetition.count:
            self._summarize(repetition)
            repetition.count = 0
            repetition.timer = self._start_timer(host, kind)
            return
        del kinds[kind]
        if not kinds:
            del self._repetitions[host]

    def _summarize(self, repetition: _Repetition) -> None:
        if repetition.count:
            fields = {**repetition.fields, "repeated": repetition.count}
            self._write(repetition.event, **fields)


def _key_within_limit(existing: Mapping[str, object], name: str, limit: int) -> str:
    return name if name in existing or len(existing) < limit else _OTHERS
