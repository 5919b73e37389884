"""Summary of the exchanges in captures: clients, groups, errors, slow requests and rebalances."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.messages import api_name
from kafkalite.capture.reading.summary import errors, groups
from kafkalite.cli.exchange_text import latency_text, time_text
from kafkalite.cli.tables import Coloured, in_colour, table_lines
from kafkalite.ports.units import NANOSECONDS_PER_SECOND
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.model import Exchange
    from kafkalite.cli.exchange_text import DecodedExchange
    from kafkalite.cli.tables import Cell

_MAX_ROWS: Final = 20
"""Rows of a table; the line after it has the number of the others."""
_MAX_SLOW: Final = 5
_STORM_REBALANCES: Final = 5
_REBALANCES_PER_CLIENT: Final = 2
"""A group has a rebalance storm if there are more within a minute: one of each number."""
_STORM_NS: Final = 60 * NANOSECONDS_PER_SECOND
_GROUP_KEY: Final = 0
_WAITING_APIS: Final = frozenset(
    (
        int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH), int(ApiKey.JOIN_GROUP), int(ApiKey.SYNC_GROUP),
    )
)  # fmt: skip
"""APIs whose answers wait for records or members; they are not slow."""


@dataclass(slots=True)
class _ClientRow:
    requests: int = 0
    errors: int = 0
    connections: set[int] = field(default_factory=set)
    software: str | None = None


@dataclass(slots=True)
class _GroupRow:
    clients: set[str] = field(default_factory=set)
    requests: int = 0
    errors: int = 0
    generations: dict[int, int] = field(default_factory=dict)
    """Generation → time at which the first member learned it."""


class ExchangeSummary:
    """Counts exchanges; `lines` has the tables."""

    def __init__(self) -> None:
        self._requests = self._unanswered = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._clients: dict[tuple[str, str], _ClientRow] = {}
        self._groups: dict[str, _GroupRow] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._first_errors: dict[tuple[str, str], int] = {}
        self._slowest: list[tuple[int, int, Exchange]] = []

    def add(self, decoded: DecodedExchange) -> None:
        """Count an exchange."""
        exchange, request, response = decoded.exchange, decoded.request, decoded.response
        self._requests += 1
        self._unanswered += exchange.answered_ns is None
        if self._first_ns is None or exchange.sent_ns < self._first_ns:
            self._first_ns = exchange.sent_ns
        self._last_ns = max(self._last_ns, exchange.answered_ns or exchange.sent_ns)
        names = [] if response is None else errors(response)
        self._add_client(decoded, len(names))
        for group in set() if request is None else groups(request):
            self._add_group(group, decoded, len(names))
        for name in names:
            key = api_name(exchange.api_key), name
            self._errors[key] += 1
            self._first_errors.setdefault(key, exchange.sent_ns)
        if exchange.answered_ns is not None and exchange.api_key not in _WAITING_APIS:
            self._add_time(exchange, exchange.answered_ns - exchange.sent_ns)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        if self._first_ns is None:
            return
        seconds = (self._last_ns - self._first_ns) / NANOSECONDS_PER_SECOND
        yield (
            f"{self._requests} requests in {seconds:.1f} s from {time_text(self._first_ns)}, "
            f"{self._unanswered} without a response"
        )
        yield from self._client_lines()
        yield from self._group_lines()
        yield from self._error_lines()
        yield from self._slow_lines()

    def _add_client(self, decoded: DecodedExchange, error_count: int) -> None:
        exchange = decoded.exchange
        key = exchange.client_id or "", exchange.connection.client.host
        row = self._clients.setdefault(key, _ClientRow())
        row.requests += 1
        row.errors += error_count
        row.connections.add(exchange.connection.number)
        name = getattr(decoded.request, "client_software_name", None)
        if name:
            version = getattr(decoded.request, "client_software_version", "")
            row.software = f"{name} {version}".strip()

    def _add_group(self, group: str, decoded: DecodedExchange, error_count: int) -> None:
        exchange, response = decoded.exchange, decoded.response
        kind: int = getattr(decoded.request, "key_type", _GROUP_KEY)
        if not group or kind != _GROUP_KEY:
            return  # a key of FindCoordinator is perhaps a transactional id
        row = self._groups.setdefault(group, _GroupRow())
        row.clients.add(f"{exchange.client_id or ''}@{exchange.connection.client.host}")
        row.requests += 1
        row.errors += error_count
        generation = getattr(response, "generation_id", -1)
        if exchange.api_key == int(ApiKey.JOIN_GROUP) and generation >= 0:
            row.generations.setdefault(generation, exchange.answered_ns or exchange.sent_ns)

    def _add_time(self, exchange: Exchange, duration_ns: int) -> None:
        entry = duration_ns, self._requests, exchange
        if len(self._slowest) < _MAX_SLOW:
            heappush(self._slowest, entry)
        else:
            heappushpop(self._slowest, entry)

    # -- tables ------------------------------------------------------------------------------

    def _client_lines(self) -> Iterator[str]:
        rows: list[list[Cell | Coloured]] = [
            [
                name or None, host, row.software, len(row.connections), row.requests,
                _errors(row.errors),
            ]
            for (name, host), row in sorted(
                self._clients.items(), key=lambda each: -each[1].requests
            )
        ]  # fmt: skip
        header = ("CLIENT", "HOST", "SOFTWARE", "CONNECTIONS", "REQUESTS", "ERRORS")
        yield from _table("clients", header, rows)

    def _group_lines(self) -> Iterator[str]:
        rows: list[list[Cell | Coloured]] = [
            [
                name, len(row.clients), row.requests, _errors(row.errors), len(row.generations),
                Coloured("yes", "red") if _has_storm(row) else None,
            ]
            for name, row in sorted(self._groups.items(), key=lambda each: -each[1].requests)
        ]  # fmt: skip
        header = ("GROUP", "CLIENTS", "REQUESTS", "ERRORS", "REBALANCES", "STORM")
        yield from _table("groups", header, rows)

    def _error_lines(self) -> Iterator[str]:
        rows: list[list[Cell | Coloured]] = [
            [api, Coloured(name, "red"), count, time_text(self._first_errors[api, name])]
            for (api, name), count in self._errors.most_common()
        ]
        yield from _table("errors", ("API", "ERROR", "COUNT", "FIRST"), rows)

    def _slow_lines(self) -> Iterator[str]:
        rows: list[list[Cell | Coloured]] = [
            [
                latency_text(exchange), api_name(exchange.api_key), exchange.client_id,
                str(exchange.connection), time_text(exchange.sent_ns),
            ]
            for _, _, exchange in sorted(self._slowest, key=lambda each: each[:2], reverse=True)
        ]  # fmt: skip
        yield from _table("slowest", ("LATENCY", "API", "CLIENT", "CONNECTION", "TIME"), rows)


def _has_storm(row: _GroupRow) -> bool:
    """Return whether a group had many rebalances within a minute."""
    limit = max(_STORM_REBALANCES, _REBALANCES_PER_CLIENT * len(row.clients))
    times = sorted(row.generations.values())
    return any(
        later - earlier <= _STORM_NS for earlier, later in zip(times, times[limit:], strict=False)
    )


def _errors(count: int) -> Cell | Coloured:
    return Coloured(count, "red") if count else 0


def _table(title: str, header: tuple[str, ...], rows: list[list[Cell | Coloured]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield in_colour(f"{title}:", "bold")
    yield from table_lines(header, rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        yield f"and {len(rows) - _MAX_ROWS} more"
