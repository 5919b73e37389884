"""The command that reports what a broker saw: requests, history, and hints about mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Words, running_cluster
from kafkalite.control.commands.explain import COLOURS, lines_of
from kafkalite.control.commands.faults import line_of as fault_line
from kafkalite.control.commands.requests import line_of, recorded
from kafkalite.control.turns import REQUESTS_PER_TURN, answer_pieces, in_turns
from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.server.broker import Broker
    from kafkalite.server.request_log import LoggedRequest

MAX_SEARCHED: Final = 1_000
"""The maximum number of requests, the latest, that a report considers."""
_MAX_LINES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """What a broker saw."""

    last_request: Annotated[
        int, About("Number of the last request that has ended, for `after_request`.")
    ]
    last_entry: Annotated[int, About("Number of the last entry, for `after_entry`.")]
    requests: Annotated[
        tuple[str, ...],
        About("The latest requests, one line each; equal ones in a row are one line."),
    ]
    history: Annotated[tuple[str, ...], About("The latest entries of `explain`, one line each.")]
    faults: Annotated[
        tuple[str, ...], About("All faults with their counts, as `fault list` prints them.")
    ]
    hints: Annotated[tuple[str, ...], About("Possible mistakes, one sentence each.")]
    is_logging: Annotated[bool, About("Whether requests are logged.")]

    @property
    def is_empty(self) -> bool:
        """Whether the broker saw nothing."""
        return not (self.requests or self.history or self.hints)

    def __str__(self) -> str:
        """Return the report as lines."""
        return "\n".join(report_lines(self))


@dataclass(frozen=True, slots=True)
class ShowReport:
    """Return the latest requests and entries of the history, and hints about common mistakes.

    Requests are reported if they are logged: with `--request-log`, or after a command about
    requests. The hints are about the latest 1,000 requests.
    """

    after_request: Annotated[
        int, About("only requests after the one with this number", minimum=0, metavar="NUMBER")
    ] = 0
    after_entry: Annotated[
        int,
        About(
            "only entries of the history after the one with this number",
            minimum=0,
            metavar="NUMBER",
        ),
    ] = 0
    limit: Annotated[
        int,
        About(
            "only this many lines of requests, and of the history, the latest [20]",
            minimum=1,
            maximum=_MAX_LINES,
            metavar="NUMBER",
        ),
    ] = 20

    async def perform(self, broker: Broker) -> Report:
        """Return the report."""
        from kafkalite.control.hints import hints  # noqa: PLC0415 - a shell needs no broker

        cluster, history = running_cluster(broker), broker.history
        requests: Sequence[LoggedRequest] = ()
        last_request = 0
        log = broker.request_log if broker.logs_requests else None
        if log is not None:
            requests = [*log.after(self.after_request), *log.pending()][-MAX_SEARCHED:]
            last_request = log.last_number
        entries, now_ms = history.after(self.after_entry), broker.clock.now_ms()
        return Report(
            last_request,
            history.last_number,
            tuple(await _request_lines(requests, self.limit)),
            tuple([each async for each in in_turns(lines_of(entries[-self.limit :]))]),
            tuple(fault_line(each) for each in broker.faults.states()),
            tuple([each async for each in hints(cluster, requests, entries, now_ms)]),
            is_logging=log is not None,
        )


async def _request_lines(requests: Sequence[LoggedRequest], limit: int) -> list[str]:
    """Return the last lines: one for each request, and for equal requests of a client in a row."""
    runs: list[tuple[tuple[object, ...], LoggedRequest, int]] = []
    async for each in in_turns(requests, REQUESTS_PER_TURN):
        key = _key(each)
        if runs and runs[-1][0] == key:
            runs[-1] = (key, each, runs[-1][2] + 1)
        else:
            runs.append((key, each, 1))
    return [
        line_of(recorded(latest)) + (f" ({times} times)" if times > 1 else "")
        async for _, latest, times in in_turns(runs[-limit:], REQUESTS_PER_TURN)
    ]


def _key(logged: LoggedRequest) -> tuple[object, ...]:
    exchange = logged.exchange
    names = tuple(logged.names(each) for each in (Entity.GROUP, Entity.TOPIC))
    codes = tuple(logged.error_codes())
    return (
        codec.api_name(exchange.api_key),
        exchange.client_id,
        logged.number is None,
        names,
        codes,
    )


def report_lines(report: Report) -> list[str]:
    """Return a report as lines."""
    requests = report.requests
    if not report.is_logging:
        requests = ("requests are not logged: --request-log, or request_log of Broker, logs them",)
    sections = {
        "Requests": requests,
        "History": report.history,
        "Faults": report.faults,
        "Hints": report.hints,
    }
    return [
        line
        for title, lines in sections.items()
        if lines
        for line in (f"{title}:", *(f"  {each}" for each in lines))
    ] or ["no requests"]


def _lines(report: Report, given: Mapping[str, object]) -> list[str]:
    del given
    return report_lines(report)


_WORD: Final = "report"

COMMANDS = Family(
    (
        Row(
            ShowReport,
            Report,
            "GET",
            "/v1/report",
            (Words(_WORD),),
            _lines,
            pieces=answer_pieces,
            colours=COLOURS,
        ),
    ),
    {_WORD: "Print the latest requests and events of a running broker, and hints about mistakes."},
)
