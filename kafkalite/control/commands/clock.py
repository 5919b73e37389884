"""Commands to the clock of a broker, and the clock that a text describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About, check_types, quote
from kafkalite.control.command_table import CommandError, Family, Row, Words, write_answers
from kafkalite.ports.clock import LATEST_MS, MAX_RATE, AdjustableClock
from kafkalite.ports.times import duration_ms, instant_ms, iso_of, parse_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.server.broker import Broker

REAL, MANUAL, ACCELERATED, AUTO = "real", "manual", "accelerated", "auto"

DEFAULT_SKIP_RATE: Final = 5
"""The highest speed of mode auto while all clients wait.

Sessions of members do not expire: they last at least nine times as long as the time between two
heartbeats by default.
"""
_RATES: Mapping[str, float] = {REAL: 1, MANUAL: 0}
_MODES: Mapping[float, str] = {rate: mode for mode, rate in _RATES.items()}


@dataclass(frozen=True, slots=True)
class ClockState:
    """The time, and the rate at which it runs."""

    now_ms: Annotated[int, About("The broker's time in milliseconds since the Unix epoch.")]
    iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    mode: Annotated[
        str,
        About(
            "`real`, `manual` (time is stopped until it is advanced), `accelerated`, or `auto` "
            "(time is moved while all clients wait)."
        ),
    ]
    rate: Annotated[
        float,
        About(
            "Speed relative to real time: 1 in mode `real`, 0 in mode `manual`, the highest one in "
            "mode `auto`."
        ),
    ]


@dataclass(frozen=True, slots=True)
class ShowClock:
    """Return the time of the broker."""

    async def perform(self, broker: Broker) -> ClockState:
        """Return the time."""
        return _state(adjustable_clock(broker))


@dataclass(frozen=True, slots=True)
class ChangeClock:
    """Change the clock, and return it.

    Exactly one field is given, or the mode `accelerated` or `auto` and a rate. Before the response
    is sent, all timers that are due by the new time have run.
    """

    advance_ms: Annotated[
        int | None,
        About(
            "advance by a duration, such as 7d, 1h30m or 250ms",
            minimum=0,
            maximum=LATEST_MS,
            alias="advance",
            parse=duration_ms,
            metavar="DURATION",
        ),
    ] = None
    now_ms: Annotated[
        int | None,
        About(
            "advance to a time, such as 2026-03-01T12:00:00Z, which must not be in the past",
            minimum=0,
            maximum=LATEST_MS,
            alias="now",
            parse=instant_ms,
            metavar="TIME",
        ),
    ] = None
    mode: Annotated[
        str | None,
        About(
            "`manual` stops the clock until it is advanced, `real` lets it run again, `auto` also "
            "moves it while all clients wait"
        ),
    ] = None
    rate: Annotated[
        float | None,
        About(
            "let the clock run this many times as fast as real time, such as 60",
            minimum=0,
            maximum=MAX_RATE,
            parse=parse_rate,
            metavar="RATE",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_types(self)
        given = [value for value in (self.advance_ms, self.now_ms, self.mode, self.rate)
                 if value is not None]  # fmt: skip
        has_rate = self.mode in {ACCELERATED, AUTO} and self.rate is not None
        is_pair = has_rate and len(given) == len("ab")
        if len(given) != 1 and not is_pair:
            raise CommandError(
                "the body must have exactly one of these fields: advance, advance_ms, now, now_ms, "
                "mode, rate"
            )
        if (self.advance_ms or 0) < 0:
            raise CommandError(f"time only moves forward, not by {self.advance_ms} ms")

    async def perform(self, broker: Broker) -> ClockState:
        """Change the clock; raises CommandError if that is impossible.

        All timers that were due have run when this returns, and the answers that they triggered
        have been written.
        """
        clock = adjustable_clock(broker)
        try:
            if self.advance_ms is not None:
                clock.advance(self.advance_ms)
            elif self.now_ms is not None:
                _set_time(clock, self.now_ms)
            elif self.mode is not None:
                clock.run(*_rates_of(self.mode, self.rate))
            elif self.rate is not None:
                clock.run(self.rate)
        except ValueError as error:
            raise CommandError(str(error)) from error
        if self.mode is not None or self.rate is not None:
            broker.skip_time(clock.skip_rate)
        state = _state(clock)
        await write_answers()
        return state


def _state(clock: AdjustableClock) -> ClockState:
    now_ms, rate = clock.now_ms(), clock.skip_rate or clock.rate
    mode = AUTO if clock.skip_rate else _MODES.get(rate, ACCELERATED)
    return ClockState(now_ms, iso_of(now_ms), mode, rate)


def _set_time(clock: AdjustableClock, target_ms: int) -> None:
    now_ms = clock.now_ms()
    if target_ms < now_ms:
        raise CommandError(
            f"it is {iso_of(now_ms)}, later than {iso_of(target_ms)}: time only moves forward"
        )
    clock.advance(target_ms - now_ms)


def _rates_of(mode: str, rate: float | None) -> tuple[float, float]:
    """Return the rate of a mode, and the highest one while all clients wait.

    Raises CommandError if the mode or `rate` is invalid.
    """
    if mode != AUTO:
        return rate_of(mode, rate), 0
    if rate is not None and rate <= 1:
        raise CommandError(f"an auto clock runs at least at rate 1: a limit of {rate:g} is too low")
    return rate_of(REAL), DEFAULT_SKIP_RATE if rate is None else rate


def rate_of(mode: str, rate: float | None = None) -> float:
    """Return the rate of a mode; raises CommandError if the mode or `rate` is invalid."""
    if mode == ACCELERATED:
        if rate is None:
            raise CommandError("an accelerated clock needs a rate, such as 60")
        if rate == 0:
            raise CommandError("a clock at rate 0 does not run: use manual")
        return rate
    if mode not in _RATES:
        raise CommandError(
            f"{mode[:40]!r} is not a mode: the modes are real, manual, accelerated and auto"
        )
    if rate is not None and rate != _RATES[mode]:
        raise CommandError(f"a {mode} clock has rate {_RATES[mode]:g}: leave out the rate {rate:g}")
    return _RATES[mode]


def adjustable_clock(broker: Broker) -> AdjustableClock:
    """Return the broker's clock; raises CommandError if an embedding program controls it."""
    clock = broker.clock
    if not isinstance(clock, AdjustableClock):
        raise CommandError("the clock of this broker is controlled by the program that embeds it")
    return clock


def new_clock(text: str) -> AdjustableClock:
    """Return the clock that `text` describes, such as `manual`, `60x` or `auto:30`.

    It may end with `@TIME`. TIME is the initial time in ISO 8601, by default the current time.
    Raises CommandError for other text.
    """
    if not isinstance(text, str):
        raise CommandError(f"clock must be text, such as manual or 60x, not {quote(text)}")
    mode, at, start = text.partition("@")
    name, colon, rate_text = mode.strip().partition(":")
    try:
        if not colon and name[:1].isdigit():
            name, rate_text = ACCELERATED, name
        rate = parse_rate(rate_text) if rate_text or colon else None
        own_rate, skip_rate = _rates_of(name, rate)
        return AdjustableClock(own_rate, instant_ms(start) if at else None, skip_rate)
    except CommandError:
        raise
    except ValueError as error:
        raise CommandError(f"clock {text[:60]!r}: {error}") from error


def _lines(state: ClockState, _: object) -> tuple[str]:
    speeds = {ACCELERATED: ", ", AUTO: ", up to "}
    speed = speeds.get(state.mode)
    rate = "" if speed is None else f"{speed}{state.rate:g} times as fast"
    return (f"{state.iso} ({state.mode}{rate})",)


COMMANDS = Family(
    (
        Row(
            ShowClock,
            ClockState,
            "GET",
            "/v1/clock",
            (Words("clock"), Words("clock show", "Show the time.")),
            _lines,
        ),
        Row(
            ChangeClock,
            ClockState,
            "POST",
            "/v1/clock",
            (
                Words(
                    "clock advance",
                    "Move time forward. The command ends when all due work is done.",
                    ("advance_ms",),
                    offers=(),
                ),
                Words("clock set", "Move time forward to a later time.", ("now_ms",), offers=()),
                Words("clock pause", "Stop the clock.", preset={"mode": MANUAL}, offers=()),
                Words(
                    "clock resume",
                    "Let time run at the normal rate.",
                    preset={"mode": REAL},
                    offers=(),
                ),
                Words("clock rate", "Let time run at a rate.", ("rate",), offers=()),
                Words(
                    "clock auto",
                    "Move time while all clients wait, at most at the given rate.",
                    ("rate",),
                    is_optional=True,
                    preset={"mode": AUTO},
                    offers=(),
                ),
            ),
            _lines,
            {"advance": "7d"},
        ),
    ),
    {"clock": "Show or change the clock of a running broker."},
)
