"""The report's sections, one per audit: a headline, a plot and the most important rows.

Every number in the report is computed from the audits' tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.health import LONG_POLL_APIS
from kafkalite.lab.spark.audits.partition_epochs import ACCEPTED
from kafkalite.lab.spark.report import charts
from kafkalite.lab.spark.report.charts import Bar, Part, Series, Span, Timeline
from kafkalite.lab.spark.report.fencing import fencing
from kafkalite.lab.spark.report.formatting import MAX_CHART_ROWS, UNNAMED, listing, name
from kafkalite.lab.spark.report.groups import groups
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.lab.spark.report.producers import producers
from kafkalite.lab.spark.report.records import records
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.spark.report.formatting import Row, Rows
    from kafkalite.lab.spark.report.model import Listing

_MAX_SERIES: Final = 6
_TONES: Final = (BAD, WARN, GOOD)


def sections(rows_by_query: Mapping[str, Rows]) -> list[Section]:
    """Return the sections of the audits that have results, those with serious findings first."""
    found = [section(rows_by_query) for required, section in _SECTIONS if required in rows_by_query]
    return sorted(found, key=lambda section: _TONES.index(section.tone))


def _members(rows_by_query: Mapping[str, Rows]) -> Section:
    totals, ghosts = rows_by_query["ghost_totals"], rows_by_query.get("ghosts", ())
    unplanned = rows_by_query.get("departures", ())
    waits = rows_by_query.get("rebalance_waits", ())
    number = sum(row["ghosts"] for row in totals)
    return Section(
        name="members",
        title="Members of groups",
        source="KIP-1082",
        tone=WARN if number or unplanned or waits else GOOD,
        headline=" ".join((_ghost_headline(totals, number), *_wait_headline(waits))),
        detail=" ".join(_member_counts(rows_by_query)),
        plot=charts.timelines(_ghost_timelines(ghosts)),
        legend=(
            (WARN, "avoidable with a client-generated member id"),
            ("plain", "not avoidable"),
        )
        if number
        else (),
        listings=(
            listing(
                "Ghosts that blocked partitions longest",
                ghosts,
                ("group_id", "member_id", "kind", "client", "client_id", "last_seen", "ended_at",
                 "end_reason", "partitions_owned", "partition_seconds_owned",
                 "partition_seconds_unassigned"),
            ),
            listing(
                "Members that did not leave as planned",
                unplanned,
                ("group_id", "member_id", "cause", "client", "client_id", "last_seen", "ended_at",
                 "silent_ms", "session_timeout_ms", "rebalance_timeout_ms"),
            ),
            listing(
                "Rebalances that waited longest for a member",
                waits,
                ("group_id", "member_id", "client", "client_id", "asked_at", "until", "seconds",
                 "outcome"),
            ),
        ),
    )  # fmt: skip


def _ghost_timelines(ghosts: Rows) -> list[Timeline]:
    return [
        Timeline(
            name(row["group_id"]),
            (
                Span(
                    row["last_seen"].timestamp(),
                    row["ended_at"].timestamp(),
                    WARN if row["is_avoidable_by_client_generated_id"] else "plain",
                    f"{row['member_id'] or UNNAMED} {row['kind']}: "
                    f"{_blocked_seconds(row):.0f} partition-seconds",
                ),
            ),
        )
        for row in ghosts[:MAX_CHART_ROWS]
    ]


def _member_counts(rows_by_query: Mapping[str, Rows]) -> Iterator[str]:
    """Yield the numbers of departures by cause, and of ghosts by kind."""
    departures = rows_by_query.get("departures_by_cause", ())
    if departures:
        causes = (f"{row['departures']:,} {row['cause']}" for row in departures)
        yield f"Departures by cause: {', '.join(causes)}."
    totals = rows_by_query["ghost_totals"]
    if totals:
        kinds = (f"{row['ghosts']} {row['kind']}" for row in totals)
        yield f"Ghosts by kind: {', '.join(kinds)}."


def _wait_headline(waits: Rows) -> Iterator[str]:
    """Yield a sentence about the longest wait of a rebalance, if there is one."""
    if waits:
        longest = waits[0]
        yield (
            f"A rebalance of group {name(longest['group_id'])} waited {longest['seconds']:,.0f} s "
            f"for client {longest['client_id'] or UNNAMED} at {longest['client']}."
        )


def _ghost_headline(totals: Rows, number: int) -> str:
    if not number:
        return "No ghosts: every member had a client until it left or was removed."
    seconds = sum(row["partition_seconds"] for row in totals)
    avoidable = [row for row in totals if row["is_avoidable_by_client_generated_id"]]
    return (
        f"{count_text(number, 'ghost')} blocked partitions for {seconds:,.0f} partition-seconds. "
        "Client-generated member ids would have avoided "
        f"{sum(row['ghosts'] for row in avoidable)} of the ghosts and "
        f"{sum(row['partition_seconds'] for row in avoidable):,.0f} partition-seconds."
    )


def _blocked_seconds(row: Row) -> float:
    return float(row["partition_seconds_owned"] + row["partition_seconds_unassigned"])


def _offsets(rows_by_query: Mapping[str, Rows]) -> Section:
    outcomes = {row["outcome"]: row for row in rows_by_query["expiry_by_outcome"]}
    lag = rows_by_query.get("lag_by_group", ())
    groups = {row["group_id"] for row in lag}
    worst_first = sorted(groups, key=lambda group: (-_max_lag(lag, group), group))[:_MAX_SERIES]
    parts = [
        f"{count_text(outcomes[outcome]['offsets'], 'offset')}"
        f" of {count_text(outcomes[outcome]['groups'], 'group')} {text}"
        for outcome, text in (
            ("lost", "would have expired before the group returned"),
            ("expired", "would have expired during the capture"),
            ("at risk", "will expire after the capture unless members return"),
        )
        if outcome in outcomes
    ]
    headline = "; ".join(parts) + "." if parts else "No offset expires."
    series = [
        Series(
            name(group),
            tuple((row["at"].timestamp(), row["lag"]) for row in lag if row["group_id"] == group),
        )
        for group in worst_first
    ]
    details = [
        *(_largest_lag_text(lag, group) for group in worst_first[:1]),
        *map(_retained, rows_by_query.get("retained", ())),
    ]
    return Section(
        name="offsets",
        title="Offset expiry and consumer lag",
        source="KIP-211",
        tone=BAD if "lost" in outcomes else WARN if "expired" in outcomes else GOOD,
        headline=headline[0].upper() + headline[1:],
        detail=" ".join(filter(None, details)),
        plot=charts.lines(series),
        listings=(
            listing(
                "Offsets that expire",
                rows_by_query.get("offset_expiry", ()),
                ("group_id", "protocol", "topic", "partition", "committed_offset", "committed_at",
                 "unsubscribed_since", "expires_at", "outcome", "returned_at", "was_missing"),
            ),
        ),
    )  # fmt: skip


def _retained(row: Row) -> str:
    """Return a sentence: how many more offsets the rule before KIP-211 expires."""
    if not row["offsets"]:
        return ""
    return (
        "A broker without KIP-211 would have expired "
        f"{count_text(row['offsets'], 'more offset')} of "
        f"{count_text(row['groups'], 'group')}; {row['rewound']:,} of them were fetched after that."
    )


def _largest_lag_text(lag: Rows, group: str | None) -> str:
    return f"The largest lag was {_max_lag(lag, group):,} ({name(group)})."


def _max_lag(lag: Rows, group: str | None) -> int:
    return max(int(row["lag"]) for row in lag if row["group_id"] == group)


def _metadata(rows_by_query: Mapping[str, Rows]) -> Section:
    by_broker = rows_by_query["stale_by_broker"]
    number = sum(row["answers"] for row in by_broker)
    resets = sum(row["resets"] for row in by_broker)
    causes = {row["cause"]: row for row in rows_by_query.get("resets_by_cause", ())}
    by_error = {row["error"]: row["requests"] for row in rows_by_query.get("outdated_by_error", ())}
    same_connection = sum(row["certain"] for row in by_broker)
    headline = _lost_positions(causes) + (
        f"{count_text(number, 'stale response')}: older than the metadata that the client already "
        f"had. {same_connection} came on the connection that had returned the newer metadata. "
        f"{count_text(resets, 'offset reset')} followed."
        if number
        else "No client received older metadata than it already had."
    )
    bars = [
        Bar(
            name(row["broker"]),
            (
                Part(row["certain"], BAD, f"{row['certain']} on the same connection"),
                Part(row["answers"] - row["certain"], WARN, "on another connection of the client"),
            ),
            f"{row['answers']:,}",
        )
        for row in by_broker[:MAX_CHART_ROWS]
    ]
    return Section(
        name="metadata",
        title="Metadata and positions",
        source="KIP-232",
        tone=BAD
        if resets or "broker behind" in causes or ACCEPTED in by_error
        else WARN
        if number or causes or by_error
        else GOOD,
        headline=headline,
        detail=" ".join([*map(_out_of_range, causes.values()), *_outdated_epochs(by_error)]),
        plot=charts.bars(bars) if number else None,
        legend=(
            (BAD, "newer metadata was on the same connection"),
            (WARN, "on another connection of the client"),
        )
        if number
        else (),
        listings=_listings(rows_by_query, _METADATA_LISTINGS),
    )


_METADATA_LISTINGS: Final = (
    (
        "Stale responses; those before offset resets come first",
        "stale_metadata",
        ("at", "host", "client_id", "broker", "topic", "partition", "kind", "received_epoch",
         "known_epoch", "evidence", "errors_after", "resets_after"),
    ),
    (
        "Fetches out of range, by cause",
        "offset_resets",
        ("at", "client", "broker", "topic", "partition", "fetch_offset", "log_end_offset", "cause",
         "reset_policy", "reset_to", "records_reread", "records_skipped"),
    ),
    (
        "Leader epoch errors",
        "leader_epoch_errors",
        ("client_id", "broker", "api", "topic", "partition", "error", "occurrences", "first_at",
         "last_at", "lowest_epoch"),
    ),
    (
        "Topics that were deleted and created again",
        "recreated_topics",
        ("topic", "last_seen_at", "first_seen_at", "previous_topic_id", "topic_id",
         "previous_partition_epoch", "partition_epoch"),
    ),
    (
        "Requests with outdated partition epochs; those that were accepted come first",
        "outdated_partition_epochs",
        ("at", "client_id", "broker", "api", "group_id", "topic", "partition",
         "sent_partition_epoch", "known_partition_epoch", "current_partition_epoch", "error"),
    ),
)  # fmt: skip


def _listings(
    rows_by_query: Mapping[str, Rows], listings: Sequence[tuple[str, str, tuple[str, ...]]]
) -> tuple[Listing, ...]:
    return tuple(
        listing(title, rows_by_query.get(query, ()), columns) for title, query, columns in listings
    )


def _outdated_epochs(by_error: Mapping[str | None, int]) -> list[str]:
    """Return a sentence about requests with outdated partition epochs, if there are any."""
    if not by_error:
        return []
    total, accepted = sum(by_error.values()), by_error.get(ACCEPTED, 0)
    partitions = count_text(total, "partition")
    return [f"{partitions} in requests had outdated epochs; brokers accepted {accepted}."]


def _lost_positions(causes: Mapping[str, Row]) -> str:
    """Return a sentence about consumers whose fetches were out of range, if there were any."""
    if not causes:
        return ""
    times, skipped, again = (
        sum(row[name] for row in causes.values()) for name in ("resets", "skipped", "again")
    )
    return (
        f"Consumers lost their position {count_text(times, 'time')}: {skipped:,} records were "
        f"skipped and {again:,} read again. "
    )


def _out_of_range(row: Row) -> str:
    """Return a sentence: how often fetches were out of range for one cause, and the effect."""
    return (
        f"Out of range {count_text(row['resets'], 'time')} ({row['cause']}): "
        f"{row['again']:,} records read again, {row['skipped']:,} skipped."
    )


def _health(rows_by_query: Mapping[str, Rows]) -> Section:
    latency, errors = rows_by_query["latency"], rows_by_query.get("error_counts", ())
    requests = sum(row["requests"] for row in latency)
    expected = sum(row["expected"] or 0 for row in errors)
    unexpected = sum(row["occurrences"] for row in errors) - expected
    measured = [row for row in latency if row["p99_ms"] is not None]
    immediate = [row for row in measured if row["api"] not in LONG_POLL_APIS]
    slowest = max(immediate, key=lambda row: row["p99_ms"], default=None)
    storms = [row for row in rows_by_query.get("rebalances", ()) if row["is_storm"]]
    headline = (
        f"{requests:,} requests of {count_text(len(latency), 'API')}; "
        + (
            f"slowest API, excluding long polls: {slowest['api']} "
            f"(p99 {slowest['p99_ms']:,.1f} ms); "
            if slowest
            else ""
        )
        + f"{count_text(unexpected, 'error')}; "
        + f"{count_text(len(storms), 'minute')} with rebalance storms."
    )
    bars = _latency_bars(measured)
    return Section(
        name="health",
        title="Health",
        source="latency, errors, rebalances, partitions, clients",
        tone=WARN if storms or unexpected else GOOD,
        headline=headline,
        detail=("Bars show p99 latency on a logarithmic scale." if bars else "")
        + (
            " A rebalance storm is a minute in which one group has at least"
            " --rebalance-storm-threshold rebalances, and more than its clients cause when they"
            " start, restart and stop."
            if storms
            else ""
        )
        + (
            f" Not counted as errors: {count_text(expected, 'error code')} of normal use (column "
            "expected)."
            if expected
            else ""
        ),
        plot=charts.bars(bars, is_log=True),
        legend=(
            ("a", "broker latency"),
            ("plain", "long polls, which wait for data or other members"),
        ),
        listings=_listings(rows_by_query, _HEALTH_LISTINGS),
    )  # fmt: skip


def _latency_bars(measured: Rows) -> list[Bar]:
    """Return a bar for each of the busiest APIs, the slowest first."""
    busiest = sorted(measured, key=lambda row: -row["requests"])[:MAX_CHART_ROWS]
    return [
        Bar(
            name(row["api"]),
            (
                Part(
                    row["p99_ms"],
                    "plain" if row["api"] in LONG_POLL_APIS else "a",
                    f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms",
                ),
            ),
            f"{row['p99_ms']:,.1f} ms",
        )
        for row in sorted(busiest, key=lambda row: -row["p99_ms"])
    ]


_HEALTH_LISTINGS: Final = (
    (
        "Errors",
        "error_counts",
        ("api", "name", "occurrences", "expected", "clients", "first_at", "last_at"),
    ),
    (
        "Rebalances per minute, most first",
        "rebalances",
        ("group_id", "protocol", "at", "rebalances", "is_storm"),
    ),
    (
        "Partitions, busiest first",
        "partition_traffic",
        ("topic", "partition", "bytes_in", "bytes_out", "share_of_topic", "is_hot"),
    ),
    (
        "Clients, slowest first (excluding long polls)",
        "clients",
        (
            "host",
            "client_id",
            "connections",
            "requests",
            "unanswered",
            "p50_ms",
            "p99_ms",
            "retries",
        ),
    ),
)


_SECTIONS: Final = (
    ("findings_by_severity", records),
    ("fencing_totals", fencing),
    ("ghost_totals", _members),
    ("group_timelines", groups),
    ("expiry_by_outcome", _offsets),
    ("stale_by_broker", _metadata),
    ("takeovers", producers),
    ("latency", _health),
)
"""(query that the section requires, function that returns the section)."""
