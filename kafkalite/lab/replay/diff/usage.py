"""Usage of a cluster in one capture: requests, versions and errors by API, and sample exchanges.

Clients are identified by their client ids with numbers replaced by `#`, because these numbers
change between runs. The first exchanges of each client and API are stored; the others are only
counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import (
    error_name,
    is_known,
    parse_request,
    response_version,
)
from kafkalite.lab.replay.comparison.refusals import error_codes
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.loading import end_ns, ignore_progress, load
from kafkalite.lab.replay.report import MAX_PROBLEMS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import NANOSECONDS_PER_SECOND
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from kafkalite.capture.model import Exchange, Problem, ProblemKind

MAX_EXCHANGES = 2_000
"""Maximum number of stored exchanges of one client and API."""

_API_VERSIONS = ApiKey.API_VERSIONS
_MAX_CACHED_BYTES = 256
_ZERO_CORRELATION_ID = bytes(4)
_DIGITS = re.compile(r"\d+")


class ClientApi(NamedTuple):
    """A client and an API that it uses."""

    client: str
    """The client id with numbers replaced."""
    api_key: int


class EarliestExchanges:
    """The exchanges that ended first, independent of the order in which they are added."""

    __slots__ = ("_exchanges", "_last_end_ns")

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._last_end_ns: int | None = None
        """Exchanges that ended later are dropped; None until the list is shortened."""

    def add_exchange(self, exchange: Exchange) -> None:
        """Store an exchange if it may be one of the first."""
        if self._last_end_ns is None or end_ns(exchange) < self._last_end_ns:
            self._exchanges.append(exchange)
            if len(self._exchanges) >= 2 * MAX_EXCHANGES:
                self._exchanges = self.exchanges()
                self._last_end_ns = end_ns(self._exchanges[-1])

    def exchanges(self) -> list[Exchange]:
        """Return the first exchanges in order, at most `MAX_EXCHANGES`."""
        return sorted(self._exchanges, key=end_ns)[:MAX_EXCHANGES]


@dataclass(slots=True)
class ApiUsage:
    """Counts of one API."""

    requests: int = 0
    versions: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0


@dataclass(slots=True)
class ClusterUsage:
    """Counts and sample exchanges of one capture."""

    name: str
    connections: set[int] = field(default_factory=set)
    requests: int = 0
    seconds: float = 0.0
    software: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Client → names and versions of the client libraries that it reports."""
    api_usage: defaultdict[int, ApiUsage] = field(default_factory=lambda: defaultdict(ApiUsage))
    """By API key."""
    counts: Counter[ClientApi] = field(default_factory=Counter)
    exchanges: defaultdict[ClientApi, EarliestExchanges] = field(
        default_factory=lambda: defaultdict(EarliestExchanges)
    )
    problems: list[Problem] = field(default_factory=list)
    problem_kinds: Counter[ProblemKind] = field(default_factory=Counter)
    """Number of problems in the capture, by kind."""

    def add_problem(self, problem: Problem) -> None:
        """Add a problem of the capture."""
        self.problem_kinds[problem.kind] += problem.count
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def read_usage(
    name: str,
    paths: Iterable[str | os.PathLike[str]],
    progress: Callable[[str], None] = ignore_progress,
) -> ClusterUsage:
    """Read captures and return their usage; `progress` is called with lines of text."""
    cluster_usage = ClusterUsage(name)
    first_ns = last_ns = None
    for exchange in load(paths, cluster_usage.add_problem, progress):
        first_ns = exchange.sent_ns if first_ns is None else min(first_ns, exchange.sent_ns)
        last_ns = max(last_ns or 0, exchange.answered_ns or exchange.sent_ns)
        add_exchange(cluster_usage, exchange)
    cluster_usage.seconds = ((last_ns or 0) - (first_ns or 0)) / NANOSECONDS_PER_SECOND
    return cluster_usage


@lru_cache(4096)
def client_name(client_id: str | None) -> str:
    """Return the client id with each number replaced by `#`, so that it is equal in every run."""
    return _DIGITS.sub("#", client_id or "(no client id)")


def add_exchange(cluster_usage: ClusterUsage, exchange: Exchange) -> None:
    """Count an exchange, and store it if it is one of the first of its client and API."""
    cluster_usage.connections.add(exchange.connection.number)
    cluster_usage.requests += 1
    client_api = ClientApi(client_name(exchange.client_id), exchange.api_key)
    cluster_usage.counts[client_api] += 1
    api_usage = cluster_usage.api_usage[exchange.api_key]
    api_usage.requests += 1
    api_usage.versions[exchange.api_version] += 1
    if not is_known(exchange.api_key, exchange.api_version):
        return
    cluster_usage.exchanges[client_api].add_exchange(exchange)
    if exchange.api_key == _API_VERSIONS:
        _add_software(cluster_usage, exchange)
    if exchange.response is None:
        api_usage.unanswered += 1
        return
    for name in _errors_of(exchange):
        api_usage.errors[name] += 1


def _add_software(cluster_usage: ClusterUsage, exchange: Exchange) -> None:
    try:
        request: Any = parse_request(exchange)
    except ProtocolViolation:
        return
    if request.client_software_name:
        software = f"{request.client_software_name} {request.client_software_version}".rstrip()
        cluster_usage.software[client_name(exchange.client_id)].add(software)


def _errors_of(exchange: Exchange) -> tuple[str, ...]:
    """Return the names of the errors in a response; results for short responses are cached."""
    response = exchange.response
    assert response is not None
    if len(response) > _MAX_CACHED_BYTES:
        return _errors(exchange.api_key, exchange.api_version, exchange.response_start, response)
    content = _ZERO_CORRELATION_ID + response[len(_ZERO_CORRELATION_ID) :]
    return _cached_errors(exchange.api_key, exchange.api_version, exchange.response_start, content)


def _errors(api_key: int, version: int, start: int, response: bytes) -> tuple[str, ...]:
    version_of_response = response_version(response, api_key, version)
    try:
        message, _ = codec.response_parser(api_key, version_of_response)(
            response, start, len(response)
        )
    except codec.PARSE_ERRORS:
        return ()
    codes = error_codes(shape_of(api_key, version_of_response, Direction.RESPONSE), message)
    return tuple(error_name(code) for code in codes if code)


_cached_errors = lru_cache(4096)(_errors)
