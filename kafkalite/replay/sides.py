"""Sides: what a capture shows of its clients and brokers, API by API, to be held against another.

Clients are told apart by their ids without the numbers in them, for these change from run to run.
Of each client and API the first exchanges are kept whole; of the others only what is counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.capture.messages import (
    error_name,
    is_known,
    parse_request,
    response_version,
)
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.loading import known_at_ns, load, quiet
from kafkalite.replay.refusals import error_codes
from kafkalite.replay.report import MOST_PROBLEMS
from kafkalite.replay.shapes import shape_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from kafkalite.capture.model import Exchange, Problem, ProblemKind

MOST_KEPT = 2_000
"""Exchanges of one client and API that are kept whole."""

_API_VERSIONS = 18
_SHORT = 256
_NO_CORRELATION = bytes(4)
_DIGITS = re.compile(r"\d+")
_S_NS = 1_000_000_000


class Part(NamedTuple):
    """A client and an API that it asks."""

    role: str
    api_key: int


class Earliest:
    """The exchanges that were over first, in their order, whichever order they come in."""

    __slots__ = ("_found", "_until_ns")

    def __init__(self) -> None:
        self._found: list[Exchange] = []
        self._until_ns: int | None = None
        """From when on an exchange is none of them; None as long as nobody knows."""

    def add(self, exchange: Exchange) -> None:
        """Keep an exchange, if it may be one of them."""
        if self._until_ns is None or known_at_ns(exchange) < self._until_ns:
            self._found.append(exchange)
            if len(self._found) >= 2 * MOST_KEPT:
                self._found = self.exchanges()
                self._until_ns = known_at_ns(self._found[-1])

    def exchanges(self) -> list[Exchange]:
        """Return at most `MOST_KEPT`."""
        return sorted(self._found, key=known_at_ns)[:MOST_KEPT]


@dataclass(slots=True)
class Usage:
    """How an API was used."""

    requests: int = 0
    versions: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0


@dataclass(slots=True)
class Side:
    """What one capture shows."""

    name: str
    connections: set[int] = field(default_factory=set)
    requests: int = 0
    seconds: float = 0.0
    software: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Client → the libraries and versions by which it calls itself."""
    usage: defaultdict[int, Usage] = field(default_factory=lambda: defaultdict(Usage))
    """API → how it was used."""
    counts: Counter[Part] = field(default_factory=Counter)
    kept: defaultdict[Part, Earliest] = field(default_factory=lambda: defaultdict(Earliest))
    problems: list[Problem] = field(default_factory=list)
    problem_kinds: Counter[ProblemKind] = field(default_factory=Counter)
    """How often what is wrong with it was met."""

    def problem(self, problem: Problem) -> None:
        """Take what is wrong with the capture."""
        self.problem_kinds[problem.kind] += problem.count
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


def side_of(
    name: str, paths: Iterable[str | os.PathLike[str]], tell: Callable[[str], None] = quiet
) -> Side:
    """Read captures whole, and return what they show; `tell` is told how far that is."""
    side = Side(name)
    first_ns = last_ns = None
    for exchange in load(paths, side.problem, tell):
        first_ns = exchange.sent_ns if first_ns is None else min(first_ns, exchange.sent_ns)
        last_ns = max(last_ns or 0, exchange.answered_ns or exchange.sent_ns)
        add(side, exchange)
    side.seconds = ((last_ns or 0) - (first_ns or 0)) / _S_NS
    return side


def role_of(exchange: Exchange) -> str:
    """Return which client asked, as it is called in every run."""
    return _role(exchange.client_id)


@lru_cache(4096)
def _role(client_id: str | None) -> str:
    return _DIGITS.sub("#", client_id or "(no client id)")


def add(side: Side, exchange: Exchange) -> None:
    """Count an exchange, and keep it if it is one of the first."""
    side.connections.add(exchange.connection.number)
    side.requests += 1
    part = Part(role_of(exchange), exchange.api_key)
    side.counts[part] += 1
    usage = side.usage[exchange.api_key]
    usage.requests += 1
    usage.versions[exchange.api_version] += 1
    if not is_known(exchange.api_key, exchange.api_version):
        return
    side.kept[part].add(exchange)
    if exchange.api_key == _API_VERSIONS:
        _name_software(side, exchange)
    if exchange.response is None:
        usage.unanswered += 1
        return
    for name in _errors_of(exchange):
        usage.errors[name] += 1


def _name_software(side: Side, exchange: Exchange) -> None:
    try:
        request: Any = parse_request(exchange)
    except ProtocolViolation:
        return
    if request.client_software_name:
        told = f"{request.client_software_name} {request.client_software_version}".rstrip()
        side.software[role_of(exchange)].add(told)


def _errors_of(exchange: Exchange) -> tuple[str, ...]:
    """Return the errors of an answer; short ones say the same over and over."""
    answer = exchange.response
    assert answer is not None
    if len(answer) > _SHORT:
        return _errors(exchange.api_key, exchange.api_version, exchange.response_start, answer)
    said = _NO_CORRELATION + answer[len(_NO_CORRELATION) :]
    return _errors_again(exchange.api_key, exchange.api_version, exchange.response_start, said)


def _errors(api_key: int, version: int, start: int, answer: bytes) -> tuple[str, ...]:
    written_in = response_version(answer, api_key, version)
    try:
        message, _ = codec.response_parser(api_key, written_in)(answer, start, len(answer))
    except codec.PARSE_ERRORS:
        return ()
    codes = error_codes(shape_of(api_key, written_in, Direction.RESPONSE), message)
    return tuple(error_name(code) for code in codes if code)


_errors_again = lru_cache(4096)(_errors)
