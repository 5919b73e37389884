"""What the report says of each audit: a sentence with numbers, a plot, and the worst cases.

Pure: rows in, sections out. Nobody reads a number here that a table does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.spark.report import charts
from kafkalite.spark.report.charts import Bar, Lane, Part, Series, Span
from kafkalite.spark.report.model import BAD, GOOD, WARN, Listing, Section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]
    Rows = Sequence[Row]

_FEW: Final = 10
_LINES: Final = 6


def sections(found: Mapping[str, Rows]) -> list[Section]:
    """Return the sections of the audits whose tables there are."""
    return [make(found) for needs, make in _SECTIONS if needs in found]


def _fencing(found: Mapping[str, Rows]) -> Section:
    totals = {row["rule"]: row for row in found["fencing_totals"]}
    strict, shipped = totals["strict"], totals["assignment-epoch"]
    zombies = strict["zombies_refused"] + strict["zombies_accepted"]
    alike = min(
        (row for rule, row in totals.items() if rule != "broker"),
        key=lambda row: row["otherwise_than_broker"],
    )
    headline = (
        f"Of {count(strict['commits'], 'commit')} by members with epochs the strict rule fails "
        f"{strict['commits_failed']:,}, the assignment-epoch rule {shipped['commits_failed']:,}; "
        f"{count(zombies, 'partition')} came from true zombies."
    )
    detail = (
        f"This broker answered as {alike['rule']} does, but for "
        f"{count(alike['otherwise_than_broker'], 'commit')}. Transactions that refusals abort: "
        + ", ".join(f"{row['transactions_aborted']} by {rule}" for rule, row in totals.items())
        + f". The capture does not decide {count(shipped['commits_undecidable'], 'commit')}."
    )
    through = totals["broker"]["zombies_accepted"]
    return Section(
        name="fencing",
        title="Commits that fencing refuses",
        source="KAFKA-19779, KIP-1251",
        tone=BAD if through else WARN if totals["broker"]["innocents_refused"] else GOOD,
        headline=headline,
        detail=detail,
        plot=charts.bars([_rule_bar(rule, row) for rule, row in totals.items()]),
        legend=(
            (BAD, "zombies refused"),
            (WARN, "innocents refused"),
            ("plain", "others refused: given up, departed, unasked for"),
        ),
        listings=(
            _listing(
                "Zombies and innocents, latest first",
                found.get("fencing_cases", ()),
                ("at", "group_id", "member_id", "topic", "partition", "commit_epoch",
                 "member_epoch", "truth", "strict", "revocation", "assignment", "broker"),
            ),
        ),
    )  # fmt: skip


def _rule_bar(rule: str, row: Row) -> Bar:
    zombies, innocents = row["zombies_refused"], row["innocents_refused"]
    rest = max(row["partitions_failed"] - zombies - innocents, 0)
    return Bar(
        "what the broker did" if rule == "broker" else rule,
        (
            Part(zombies, BAD, f"{zombies} partitions of zombies refused"),
            Part(innocents, WARN, f"{innocents} partitions of innocents refused"),
            Part(rest, "plain", f"{rest} other partitions refused"),
        ),
        f"{row['commits_failed']:,} commits",
    )


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
            row["group_id"],
            (
                Span(
                    row["last_sign"].timestamp(),
                    row["until"].timestamp(),
                    WARN if row["would_own_id_save"] else "plain",
                    f"{row['member_id'] or 'nameless'} {row['kind']}: "
                    f"{_waiting(row):.0f} partition-seconds",
                ),
            ),
        )
        for row in ghosts[:_FEW]
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
            _listing(
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
    names = sorted({row["group_id"] for row in lag}, key=lambda name: -_worst(lag, name))[:_LINES]
    parts = [
        f"{count(fates[fate]['offsets'], 'offset')}"
        f" of {count(fates[fate]['groups'], 'group')} {says}"
        for fate, says in (
            ("lost", "would be gone when the group comes back"),
            ("expired", "would expire within the capture"),
            ("at risk", "expire after it unless members come"),
        )
        if fate in fates
    ]
    headline = "; ".join(parts) + "." if parts else "The retention takes no offset away."
    series = [
        Series(
            name,
            tuple((row["at"].timestamp(), row["lag"]) for row in lag if row["group_id"] == name),
        )
        for name in names
    ]
    worst = f"The furthest behind was {names[0]}, by {_worst(lag, names[0]):,}." if names else ""
    return Section(
        name="offsets",
        title="Offsets that expire, and lag",
        source="KIP-211",
        tone=BAD if "lost" in fates else WARN if "expired" in fates else GOOD,
        headline=headline[0].upper() + headline[1:],
        detail=worst,
        plot=charts.lines(series),
        listings=(
            _listing(
                "Offsets that would be gone",
                found.get("offset_expiry", ()),
                ("group_id", "protocol", "topic", "partition", "committed_offset", "committed_at",
                 "expires_at", "fate", "returned_at", "was_missing"),
            ),
        ),
    )  # fmt: skip


def _worst(lag: Rows, group: str) -> int:
    return max(int(row["lag"]) for row in lag if row["group_id"] == group)


def _metadata(found: Mapping[str, Rows]) -> Section:
    by_broker, stale = found["stale_by_broker"], found.get("stale_metadata", ())
    number = sum(row["answers"] for row in by_broker)
    resets = sum(row["resets"] for row in by_broker)
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
            row["broker"],
            (
                Part(row["certain"], BAD, f"{row['certain']} on the same connection"),
                Part(row["answers"] - row["certain"], WARN, "by another connection of the client"),
            ),
            f"{row['answers']:,}",
        )
        for row in by_broker[:_FEW]
    ]
    return Section(
        name="metadata",
        title="Stale metadata",
        source="KIP-232",
        tone=BAD if resets else WARN if number else GOOD,
        headline=headline,
        plot=charts.bars(bars) if number else "",
        legend=((BAD, "same connection"), (WARN, "same client")) if number else (),
        listings=(
            _listing(
                "Stale answers, those with resets first",
                stale,
                ("at", "host", "client_id", "broker", "topic", "partition", "kind", "told_epoch",
                 "known_epoch", "evidence", "errors_after", "resets_after"),
            ),
        ),
    )  # fmt: skip


def _producers(found: Mapping[str, Rows]) -> Section:
    fences, zombies = found["producer_fences"], found.get("zombie_writes", ())
    ends = {row["end"]: row["transactions"] for row in found["transaction_ends"]}
    takeovers = found["takeovers"][0]["takeovers"]
    outcomes = {row["outcome"]: row["writes"] for row in found["zombie_outcomes"]}
    accepted = outcomes.get("accepted", 0)
    headline = (
        f"{count(takeovers, 'takeover')} of transactional ids; "
        f"{count(sum(outcomes.values()), 'write')} of zombies came after one, {accepted} of which "
        "the broker took; "
        f"{count(ends.get('overdue', 0), 'transaction was', 'transactions were')} left open."
    )
    told = ", ".join(f"{number:,} {end}" for end, number in sorted(ends.items()))
    return Section(
        name="producers",
        title="Producers fenced, and zombies that wrote on",
        source="KIP-618",
        tone=BAD if accepted else WARN if outcomes or "overdue" in ends else GOOD,
        headline=headline,
        detail=f"Transactions: {told}." if told else "",
        plot=charts.lanes(_id_lanes(fences, zombies)),
        legend=(("a", "new epoch"), (WARN, "takeover"), (BAD, "a zombie's write")),
        listings=(
            _listing(
                "Writes of zombies, accepted ones first",
                zombies,
                ("at", "transactional_id", "api", "client", "producer_epoch", "fence_epoch",
                 "fenced_by", "outcome", "error"),
            ),
            _listing(
                "Transactions left open, oldest first",
                found.get("open_transactions", ()),
                ("transactional_id", "producer_id", "producer_epoch", "client", "began_at", "end",
                 "seconds"),
            ),
            _listing(
                "Generations of Connect's tasks",
                found.get("connect_tasks", ()),
                ("connect_group", "connector", "task", "generation", "began_at", "client",
                 "is_used"),
            ),
        ),
    )  # fmt: skip


def _id_lanes(fences: Rows, zombies: Rows) -> list[Lane]:
    """Return the history of the ids that were taken over, most often first."""
    spans: dict[str, list[Span]] = {}
    for row in fences:
        tone = WARN if row["kind"] == "takeover" else "a"
        title = f"{row['kind']}: epoch {row['producer_epoch']} to {row['client']}"
        at = row["at"].timestamp()
        spans.setdefault(row["transactional_id"], []).append(Span(at, at, tone, title))
    for row in zombies:
        at = row["at"].timestamp()
        title = f"{row['api']} at epoch {row['producer_epoch']}, {row['outcome']}"
        spans.setdefault(row["transactional_id"], []).append(Span(at, at, BAD, title))
    busiest = sorted(spans.items(), key=lambda each: -len(each[1]))[:_FEW]
    return [Lane(name, tuple(each)) for name, each in busiest]


def _health(found: Mapping[str, Rows]) -> Section:
    latency, errors = found["latency"], found.get("error_counts", ())
    asked = sum(row["requests"] for row in latency)
    prompt = [row for row in latency if row["p99_ms"] is not None]
    slowest = max(prompt, key=lambda row: row["p99_ms"], default=None)
    storms = [row for row in found.get("rebalances", ()) if row["is_storm"]]
    headline = (
        f"{asked:,} requests of {count(len(latency), 'API')}; "
        + (
            f"the slowest is {slowest['api']}, {slowest['p99_ms']:,.1f} ms for 99 of 100; "
            if slowest
            else ""
        )
        + f"{count(sum(row['times'] for row in errors), 'error')}, "
        + f"{count(len(storms), 'minute')} of rebalance storms."
    )
    bars = [
        Bar(
            row["api"],
            (Part(row["p99_ms"] or 0, "a", f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms"),),
            f"{row['p99_ms']:,.1f} ms",
        )
        for row in sorted(prompt, key=lambda row: -row["requests"])[:_FEW]
    ]
    return Section(
        name="health",
        title="Health",
        source="latency, errors, rebalances, partitions, clients",
        tone=WARN if storms or errors else GOOD,
        headline=headline,
        detail="99 of a hundred answers took no longer; by magnitude." if bars else "",
        plot=charts.bars(bars, is_log=True),
        listings=(
            *(_listing(title, found.get(name, ()), shown) for title, name, shown in _WELL_BEING),
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
        "Clients, slowest first",
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


def count(number: int, one: str, many: str | None = None) -> str:
    """Write how many there are of something."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _listing(title: str, rows: Rows, columns: tuple[str, ...]) -> Listing:
    return Listing(
        title, columns, tuple(tuple(row[name] for name in columns) for row in rows[:_FEW])
    )


_SECTIONS: Final = (
    ("fencing_totals", _fencing),
    ("ghost_totals", _members),
    ("expiry_by_fate", _offsets),
    ("stale_by_broker", _metadata),
    ("takeovers", _producers),
    ("latency", _health),
)
"""(the table without which there is nothing to say, what says it)."""
