"""Commands: everything a running broker can be told or asked from outside, as data.

HTTP, the command line and `kafkalite.testing` make the same commands, and `perform` carries each
out, on the event loop that serves the broker.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import SubjectKind
from kafkalite.coordinator.journal import MAX_ENTRIES
from kafkalite.ports.clock import DrivenClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.journal import Entry
    from kafkalite.server.broker import Broker
    from kafkalite.transactions.state import Transaction

MAX_EXPLAINED = 10_000
DEFAULT_EXPLAINED = 2 * MAX_ENTRIES

REAL, MANUAL, ACCELERATED = "real", "manual", "accelerated"

_LOOP_TURNS = 3
"""Turns of the loop in which the answers that a jump brought about are written."""


class CommandError(ValueError):
    """A command that cannot be carried out; the text is one sentence for people."""


@dataclass(frozen=True, slots=True)
class ShowClock:
    """Tell the time."""


@dataclass(frozen=True, slots=True)
class AdvanceClock:
    """Move time forward by `ms`, doing all that is due on the way."""

    ms: int


@dataclass(frozen=True, slots=True)
class SetClock:
    """Move time forward to `now_ms`, doing all that is due on the way."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class RunClock:
    """Let time run `rate` times as fast as the machine's; 0 stands still, 1 is real."""

    rate: float


@dataclass(frozen=True, slots=True)
class Explain:
    """Tell what befell a group or a transactional id, and why, or what befell all of them.

    The latest `limit` entries are told; CommandError for a wish to hear of both.
    """

    group: str | None = None
    limit: int = DEFAULT_EXPLAINED
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None and self.transactional_id is not None:
            raise CommandError("explain tells of a group or of a transactional id, not of both")


ClockCommand = ShowClock | AdvanceClock | SetClock | RunClock


class ClockState(NamedTuple):
    """What time it is, and how time goes."""

    now_ms: int
    rate: float

    @property
    def mode(self) -> str:
        """REAL, MANUAL or ACCELERATED; the last stands for any pace that is not the machine's."""
        modes: dict[float, str] = {0: MANUAL, 1: REAL}
        return modes.get(self.rate, ACCELERATED)


class Explanation(NamedTuple):
    """What befell them, oldest first, and the ids of all of whom something is known."""

    now_ms: int
    groups: Sequence[str]
    transactional_ids: Sequence[str]
    entries: Sequence[Entry]


def rate_of(mode: str, rate: float | None = None) -> float:
    """Return the rate of a mode; CommandError when they do not fit together."""
    rates: dict[str, float] = {REAL: 1, MANUAL: 0}
    if mode == ACCELERATED:
        if rate is None:
            raise CommandError("an accelerated clock needs a rate, such as 60")
        if rate == 0:
            raise CommandError("a clock at rate 0 stands: say manual")
        return rate
    if mode not in rates:
        raise CommandError(f"{mode[:40]!r} is no mode: there are real, manual and accelerated")
    if rate is not None and rate != rates[mode]:
        raise CommandError(f"a {mode} clock has no other rate than {rates[mode]}")
    return rates[mode]


async def perform_on_clock(broker: Broker, command: ClockCommand) -> ClockState:
    """Carry out a command and return the time after it; CommandError when that cannot be.

    What was due has been done by then, and the answers that it brought about have been written.
    """
    clock = driven(broker)
    try:
        if isinstance(command, AdvanceClock):
            clock.advance(command.ms)
        elif isinstance(command, SetClock):
            _set(clock, command.now_ms)
        elif isinstance(command, RunClock):
            clock.run(command.rate)
    except ValueError as error:
        raise CommandError(str(error)) from error
    state = ClockState(clock.now_ms(), clock.rate)
    for _ in range(_LOOP_TURNS):
        await asyncio.sleep(0)
    return state


def _set(clock: DrivenClock, wanted_ms: int) -> None:
    from kafkalite.control.times import iso_of  # noqa: PLC0415 - most never set a time

    now_ms = clock.now_ms()
    if wanted_ms < now_ms:
        raise CommandError(
            f"it is {iso_of(now_ms)}, past {iso_of(wanted_ms)}: time only goes forward"
        )
    clock.advance(wanted_ms - now_ms)


def perform_explain(broker: Broker, command: Explain) -> Explanation:
    """Return what is known; of whom nothing is known, there are no entries."""
    limit = max(0, min(command.limit, MAX_EXPLAINED))
    journal = broker.journal
    if command.group is not None:
        entries = journal.about(command.group, limit)
    elif command.transactional_id is not None:
        kind = SubjectKind.TRANSACTIONAL_ID
        entries = journal.about(command.transactional_id, limit, of=kind)
    else:
        entries = journal.latest(limit)
    return Explanation(
        broker.clock.now_ms(),
        journal.names(SubjectKind.GROUP),
        journal.names(SubjectKind.TRANSACTIONAL_ID),
        entries,
    )


def perform_transactions(broker: Broker) -> list[Transaction]:
    """Return what is kept of every transactional id, sorted by id."""
    cluster = broker.cluster
    shards = () if cluster is None else cluster.transactions.shards()
    found = [each for shard in shards for each in shard.machine.transactions()]
    return sorted(found, key=attrgetter("transactional_id"))


def driven(broker: Broker) -> DrivenClock:
    """Return the broker's clock, which was not brought along by whoever embeds it."""
    clock = broker.clock
    if not isinstance(clock, DrivenClock):
        raise CommandError("this broker was given a clock of its own, which is driven elsewhere")
    return clock


def new_clock(text: str) -> DrivenClock:
    """Return the clock that `text` asks for: `real`, `manual`, `accelerated:60`, each with `@TIME`.

    CommandError for anything else. TIME is when it begins, in ISO 8601, by default now.
    """
    from kafkalite.control.times import instant_ms, rate_from  # noqa: PLC0415 - most begin without a time

    mode, at, start = text.partition("@")
    name, colon, rate_text = mode.strip().partition(":")
    try:
        rate = rate_from(rate_text) if colon else None
        return DrivenClock(rate_of(name, rate), instant_ms(start) if at else None)
    except CommandError:
        raise
    except ValueError as error:
        raise CommandError(f"clock {text[:60]!r}: {error}") from error
