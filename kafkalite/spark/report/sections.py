"""What the report says of each audit: a sentence with numbers, a plot, and the worst cases.

Pure: rows in, sections out. Nobody reads a number here that a table does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.spark.audits.health import WAITING
from kafkalite.spark.report import charts
from kafkalite.spark.report.charts import Bar, Lane, Part, Series, Span
from kafkalite.spark.report.fencing import fencing
from kafkalite.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.spark.report.words import FEW, NAMELESS, count, listing, name
from kafkalite.spark.report.writers import producers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.report.words import Row, Rows

_LINES: Final = 6


def sections(found: Mapping[str, Rows]) -> list[Section]:
    """Return the sections of the audits whose tables there are."""
    return [make(found) for needs, make in _SECTIONS if needs in found]


def _members(found: Mapping[str, Rows]) -> Section:
    totals, ghosts = found["ghost_totals"], found.get("ghosts", ())
    number = sum(row["ghosts"] for row in totals)
    seconds = sum(row["partition_seconds"] for row in totals)
    saved = [row for row in totals if row["would_own_id_save"]]
    headline = (
        f"{count(number, 'ghost')} kept partitions waiting for {seconds:,.0f} partition-seconds; "
        f"ids made by clients would have spared {sum(row['ghosts'] for row in saved)} of them, and "
        f"{sum(row['partition_seconds'] for row in saved):,.0f} partition-seconds."
        if number
        else "No ghosts: every member that joined was heard of until it left."
    )
    kinds = ", ".join(f"{row['ghosts']} {row['kind']}" for row in totals)
    lanes = [
        Lane(
            name(row["group_id"]),
            (
                Span(
                    row["last_sign"].timestamp(),
                    row["until"].timestamp(),
                    WARN if row["would_own_id_save"] else "plain",
                    f"{row['member_id'] or NAMELESS} {row['kind']}: "
                    f"{_waiting(row):.0f} partition-seconds",
                ),
            ),
        )
        for row in ghosts[:FEW]
    ]
    return Section(
        name="members",
        title="Ghosts in groups",
        source="KIP-1082",
        tone=WARN if number else GOOD,
        headline=headline,
        detail=f"By kind: {kinds}." if kinds else "",
        plot=charts.lanes(lanes),
        legend=((WARN, "an own id had saved it"), ("plain", "nothing had")) if number else (),
        listings=(
            listing(
                "The costliest",
                ghosts,
                ("group_id", "member_id", "kind", "client", "last_sign", "until",
                 "partitions_held", "partition_seconds_held", "partition_seconds_kept_free"),
            ),
        ),
    )  # fmt: skip


def _waiting(row: Row) -> float:
    return float(row["partition_seconds_held"] + row["partition_seconds_kept_free"])


def _offsets(found: Mapping[str, Rows]) -> Section:
    fates = {row["fate"]: row for row in found["expiry_by_fate"]}
    lag = found.get("lag_by_group", ())
    groups = {row["group_id"] for row in lag}
    worst_first = sorted(groups, key=lambda group: -_worst(lag, group))[:_LINES]
    parts = [
        f"{count(fates[fate]['offsets'], 'offset')}"
        f" of {count(fates[fate]['groups'], 'group')} {says}"
        for fate, says in (
            ("lost", "would be gone when the group comes back"),
            ("expired", "would expire within the capture"),
            ("at risk", "expire after the capture's end unless members come back"),
        )
        if fate in fates
    ]
    headline = "; ".join(parts) + "." if parts else "The retention takes no offset away."
    series = [
        Series(
            name(group),
            tuple((row["at"].timestamp(), row["lag"]) for row in lag if row["group_id"] == group),
        )
        for group in worst_first
    ]
    told = [
        *(_furthest(lag, group) for group in worst_first[:1]),
        *map(_spared, found.get("spared", ())),
    ]
    return Section(
        name="offsets",
        title="Offsets that expire, and lag",
        source="KIP-211",
        tone=BAD if "lost" in fates else WARN if "expired" in fates else GOOD,
        headline=headline[0].upper() + headline[1:],
        detail=" ".join(filter(None, told)),
        plot=charts.lines(series),
        listings=(
            listing(
                "Offsets that would be gone",
                found.get("offset_expiry", ()),
                ("group_id", "protocol", "topic", "partition", "committed_offset", "committed_at",
                 "unread_since", "expires_at", "fate", "returned_at", "was_missing"),
            ),
        ),
    )  # fmt: skip


def _spared(row: Row) -> str:
    """Say what the rule before KIP-211 had taken away besides."""
    if not row["offsets"]:
        return ""
    return (
        f"A broker before KIP-211 had taken {count(row['offsets'], 'offset')} more, of "
        f"{count(row['groups'], 'group')}; {count(row['rewound'], 'time')} one was asked for then."
    )


def _furthest(lag: Rows, group: str | None) -> str:
    return f"The furthest behind was {name(group)}, by {_worst(lag, group):,}."


def _worst(lag: Rows, group: str | None) -> int:
    return max(int(row["lag"]) for row in lag if row["group_id"] == group)


def _metadata(found: Mapping[str, Rows]) -> Section:
    by_broker = found["stale_by_broker"]
    number = sum(row["answers"] for row in by_broker)
    resets = sum(row["resets"] for row in by_broker)
    causes = {row["cause"]: row for row in found.get("resets_by_cause", ())}
    sure = sum(row["certain"] for row in by_broker)
    headline = (
        f"{count(number, 'partition was told', 'partitions were told')} older than their client "
        f"knew, {sure} by a connection that itself had told the newer;"
        f" {count(resets, 'reset')} followed."
        if number
        else "No answer was older than what its client already knew."
    )
    bars = [
        Bar(
            name(row["broker"]),
            (
                Part(row["certain"], BAD, f"{row['certain']} on the same connection"),
                Part(row["answers"] - row["certain"], WARN, "by another connection of the client"),
            ),
            f"{row['answers']:,}",
        )
        for row in by_broker[:FEW]
    ]
    return Section(
        name="metadata",
        title="Stale metadata",
        source="KIP-232",
        tone=BAD if resets or "broker behind" in causes else WARN if number or causes else GOOD,
        headline=headline,
        detail=" ".join(map(_lost_places, causes.values())),
        plot=charts.bars(bars) if number else "",
        legend=((BAD, "same connection"), (WARN, "same client")) if number else (),
        listings=(
            *(listing(title, found.get(table, ()), shown) for title, table, shown in _OF_METADATA),
        ),
    )


_OF_METADATA: Final = (
    (
        "Stale answers, those with resets first",
        "stale_metadata",
        ("at", "host", "client_id", "broker", "topic", "partition", "kind", "told_epoch",
         "known_epoch", "evidence", "errors_after", "resets_after"),
    ),
    (
        "Consumers that lost their place",
        "offset_resets",
        ("at", "client", "broker", "topic", "partition", "fetch_offset", "reached", "cause",
         "reset_by", "reset_to", "records_again", "records_skipped"),
    ),
    (
        "Refusals over who leads",
        "leader_epoch_errors",
        ("client_id", "broker", "api", "topic", "partition", "error", "times", "first_at",
         "last_at", "lowest_epoch"),
    ),
)  # fmt: skip


def _lost_places(row: Row) -> str:
    """Say how often offsets were out of range for one cause, and what it cost."""
    return (
        f"{count(row['resets'], 'offset was', 'offsets were')} out of range ({row['cause']}): "
        f"{row['again']:,} records read again, {row['skipped']:,} never."
    )


def _health(found: Mapping[str, Rows]) -> Section:
    latency, errors = found["latency"], found.get("error_counts", ())
    asked = sum(row["requests"] for row in latency)
    prompt = [row for row in latency if row["p99_ms"] is not None]
    at_once = [row for row in prompt if row["api"] not in WAITING]
    slowest = max(at_once, key=lambda row: row["p99_ms"], default=None)
    storms = [row for row in found.get("rebalances", ()) if row["is_storm"]]
    headline = (
        f"{asked:,} requests of {count(len(latency), 'API')}; "
        + (
            f"the slowest that waits for nobody is {slowest['api']}, "
            f"{slowest['p99_ms']:,.1f} ms for 99 of 100; "
            if slowest
            else ""
        )
        + f"{count(sum(row['times'] for row in errors), 'error')}, "
        + f"{count(len(storms), 'minute')} of rebalance storms."
    )
    bars = [
        Bar(
            name(row["api"]),
            (
                Part(
                    row["p99_ms"],
                    "plain" if row["api"] in WAITING else "a",
                    f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms",
                ),
            ),
            f"{row['p99_ms']:,.1f} ms",
        )
        for row in sorted(prompt, key=lambda row: -row["requests"])[:FEW]
    ]
    return Section(
        name="health",
        title="Health",
        source="latency, errors, rebalances, partitions, clients",
        tone=WARN if storms or errors else GOOD,
        headline=headline,
        detail=("99 of a hundred answers took no longer; bars are logarithmic." if bars else "")
        + (" A storm is a minute in which one group has --storm rebalances." if storms else ""),
        plot=charts.bars(bars, is_log=True),
        legend=(("a", "the broker's time"), ("plain", "waits for data or for other members")),
        listings=(
            *(listing(title, found.get(table, ()), shown) for title, table, shown in _WELL_BEING),
        ),
    )  # fmt: skip


_WELL_BEING: Final = (
    ("Errors", "error_counts", ("api", "name", "times", "clients", "first_at", "last_at")),
    (
        "Rebalances, most within a minute",
        "rebalances",
        ("group_id", "protocol", "at", "rebalances", "is_storm"),
    ),
    (
        "Partitions, busiest first",
        "partition_traffic",
        ("topic", "partition", "bytes_in", "bytes_out", "share_of_topic", "is_hot"),
    ),
    (
        "Clients, slowest first (by what waits for nobody)",
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
    ("fencing_totals", fencing),
    ("ghost_totals", _members),
    ("expiry_by_fate", _offsets),
    ("stale_by_broker", _metadata),
    ("takeovers", producers),
    ("latency", _health),
)
"""(the table without which there is nothing to say, what says it)."""
