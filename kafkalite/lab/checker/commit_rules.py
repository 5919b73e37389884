"""Rules about committed offsets: regressions, delayed and lost commits, commits of zombies."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.delivery_rules import group_partition
from kafkalite.lab.checker.effective_commits import (
    GroupPartition,
    at_ns,
    effective_commits,
    is_any_between,
    removal_times,
)
from kafkalite.lab.checker.findings import (
    DELAYED_REQUEST,
    OTHER_COMMIT,
    Finding,
    Severity,
)
from kafkalite.lab.checker.history import Outcome, Range, sent_ns
from kafkalite.lab.checker.packed_rows import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.checker.history import (
        Client,
        Commit,
        CommittedOffset,
        Delivery,
        History,
        LogProof,
        Proof,
    )
    from kafkalite.lab.checker.packed_rows import View

REGRESSION: Final = "commit regression"
CONTRADICTED: Final = "contradicted commit"
ZOMBIE_COMMIT: Final = "commit of a zombie"
OTHER_INCARNATION: Final = "commit of a deleted topic's offset"

EARLIER_OWNER: Final = "late commit of an earlier owner"
RETRIED: Final = "retry of an earlier commit"
MOVED_BACK: Final = "position moved back"
ADMINISTRATOR: Final = "administrator"
EXPIRED: Final = "expired or deleted"
LOST_COMMIT: Final = "lost commit"
RECREATED_TOPIC: Final = "recreated topic"


def regressions(history: History) -> Iterator[Finding]:
    """Yield accepted commits of lower offsets than the commit before.

    The order is that of the answers. A group without an offset in between begins again.
    """
    removals, before = removal_times(history), _Before(history)
    for key, commits in effective_commits(history).items():
        for earlier, later in pairwise(commits):
            if later.commit.offset < earlier.commit.offset and not is_any_between(
                removals[key], earlier.at_ns, later.commit.event.sent_ns
            ):
                yield _regression(history, key, earlier.commit, later.commit, before)


class _Before:
    """What members did with partitions before they committed a lower offset."""

    def __init__(self, history: History) -> None:
        self._first_uses: dict[tuple[GroupPartition, str], int] = {}
        """Member of a partition → when it first committed or fetched."""
        self._refused: dict[tuple[GroupPartition, str, int], int] = {}
        """Member and offset → when its commit was first refused."""
        rows: Iterator[Commit | Delivery] = chain(history.commits, history.deliveries)
        for row in rows:
            if row.group and row.member:
                key = GroupPartition(row.group, row.partition), row.member
                first_ns = self._first_uses.get(key, row.event.sent_ns)
                self._first_uses[key] = min(first_ns, row.event.sent_ns)
        for commit in history.commits:
            if commit.outcome is Outcome.REFUSED:
                own = GroupPartition(commit.group, commit.partition), commit.member, commit.offset
                self._refused.setdefault(own, commit.event.sent_ns)

    def was_owner(self, key: GroupPartition, member: str, before_ns: int) -> bool:
        """Return whether a member used a partition before some time."""
        return self._first_uses.get((key, member), before_ns) < before_ns

    def was_refused(self, key: GroupPartition, commit: Commit, before_ns: int) -> bool:
        """Return whether the same commit was refused before some time."""
        return self._refused.get((key, commit.member, commit.offset), before_ns) < before_ns


def _regression(
    history: History, key: GroupPartition, earlier: Commit, later: Commit, before: _Before
) -> Finding:
    cause, severity, reason = _cause(history, key, earlier, later, before)
    return Finding(
        rule=REGRESSION,
        severity=severity,
        text=f"the committed offset of group {key.group} for {key.partition} went back from "
        f"{earlier.offset} to {later.offset}: {reason}",
        cause=cause,
        partition=key.partition,
        offsets=Range(later.offset, earlier.offset - 1),
        group=key.group,
        client=later.event.client,
        records=earlier.offset - later.offset,
        proofs=(earlier.event.proof, later.event.proof),
    )


def _cause(
    history: History, key: GroupPartition, earlier: Commit, later: Commit, before: _Before
) -> tuple[str, Severity, str]:
    client = later.event.client
    # A producer sends commits of transactions, on other connections than those of its consumer.
    is_of_member = bool(later.member) and not later.is_transactional
    if is_of_member and history.was_given_up(later.event, later.member):
        reason = f"a request of {client} arrived after the client had opened another connection"
        return DELAYED_REQUEST, Severity.VIOLATION, reason
    if later.is_administrative:
        return ADMINISTRATOR, Severity.NOTE, f"{client} set it"
    if later.member == earlier.member:
        if before.was_refused(key, later, earlier.event.sent_ns):
            reason = f"{client} sent the lower one again, which was refused before the higher one"
            return RETRIED, Severity.WARNING, reason
        return MOVED_BACK, Severity.WARNING, f"{client} committed both"
    reason = f"{client} committed it as member {later.member}, after {earlier.event.client}"
    if before.was_owner(key, later.member, earlier.event.sent_ns):
        return EARLIER_OWNER, Severity.VIOLATION, reason
    return MOVED_BACK, Severity.WARNING, reason


def contradicted(history: History) -> Iterator[Finding]:
    """Yield answers to OffsetFetch that have another offset than the latest accepted commit.

    The history decides it only if no commit was in flight. If the offset is that of a commit that
    was not answered, this commit took effect after its client had given it up. An offset that no
    commit of the history has was committed by a client that the history lacks. A commit of a
    transaction takes effect some time after EndTxn is answered, so only a request that waits for it
    decides whether it is lost (KIP-447).
    """
    effective, every = effective_commits(history), _commits(history)
    seen: set[tuple[GroupPartition, int, int]] = set()
    for row in history.committed_offsets:
        key = GroupPartition(row.group, row.partition)
        own = effective.get(key, [])
        count = bisect_left(own, row.event.sent_ns, key=at_ns)
        if not count or own[count - 1].commit.offset == row.offset:
            continue
        latest, contradiction = own[count - 1].commit, (key, own[count - 1].at_ns, row.offset)
        before = own[count - 2].commit.offset if count > 1 else -1
        if latest.is_transactional and not row.is_stable and row.offset == before:
            continue
        if contradiction in seen or _is_in_flight(every[key], latest, row):
            continue
        seen.add(contradiction)
        yield _contradiction(every[key], key, latest, row)


def _commits(history: History) -> dict[GroupPartition, list[Commit]]:
    found: dict[GroupPartition, list[Commit]] = defaultdict(list)
    for each in history.commits:
        found[GroupPartition(each.group, each.partition)].append(each)
    return found


def _is_in_flight(commits: list[Commit], latest: Commit, row: CommittedOffset) -> bool:
    """Return whether another commit may have taken effect between a commit and an answer.

    A commit without an answer counts from the latest accepted one on.
    """
    until_ns = row.event.answered_ns or row.event.sent_ns
    begin = bisect_right(commits, latest.event.sent_ns, key=sent_ns)
    end = bisect_left(commits, until_ns, lo=begin, key=sent_ns)
    return any(each.outcome is not Outcome.REFUSED for each in commits[begin:end])


def _contradiction(
    commits: list[Commit], key: GroupPartition, latest: Commit, row: CommittedOffset
) -> Finding:
    delayed = [
        each
        for each in commits
        if each.outcome is Outcome.UNKNOWN
        and each.offset == row.offset
        and each.event.sent_ns < row.event.sent_ns
    ]
    committed = f"{latest.event.client} committed offset {latest.offset} of {key.partition}"
    if delayed:
        culprit = delayed[-1]
        cause, severity, client = DELAYED_REQUEST, Severity.VIOLATION, culprit.event.client
        proofs: tuple[Proof | LogProof, ...] = (
            culprit.event.proof, latest.event.proof, row.event.proof,
        )  # fmt: skip
        text = f"offset {row.offset}, from a commit that {client} had given up"
    else:
        cause, text = _other_reason(commits, row)
        severity = Severity.VIOLATION if cause == LOST_COMMIT else Severity.NOTE
        client, proofs = latest.event.client, (latest.event.proof, row.event.proof)
    return Finding(
        rule=CONTRADICTED,
        severity=severity,
        text=f"{committed} for group {key.group}, but {row.event.client} received {text}",
        cause=cause,
        partition=key.partition,
        group=key.group,
        client=client,
        records=max(0, latest.offset - max(0, row.offset)),
        proofs=proofs,
    )


def _other_reason(commits: list[Commit], row: CommittedOffset) -> tuple[str, str]:
    if row.offset < 0:
        return EXPIRED, "no offset: it expired or was deleted"
    if any(each.offset == row.offset for each in commits if sent_ns(each) < sent_ns(row)):
        return LOST_COMMIT, f"offset {row.offset}"
    return OTHER_COMMIT, f"offset {row.offset}, which no commit in the history has"


def zombie_commits(history: History) -> Iterator[Finding]:
    """Yield accepted commits of a member after another member had fetched the partition.

    The other member must have fetched after the last fetch of the first one (KAFKA-19779,
    KIP-1251), and must have got the partition later: a member that gets it asks for its committed
    offset with OffsetFetch. A zombie that still fetches is not the owner.
    """
    starts: dict[GroupPartition, dict[Client, list[int]]] = defaultdict(lambda: defaultdict(list))
    for found in history.committed_offsets:
        key = GroupPartition(found.group, found.partition)
        starts[key][found.event.client].append(sent_ns(found))
    rows_by_key = grouped(
        history.deliveries, lambda row: None if row.member is None else group_partition(row)
    )
    owners = {own: _Owners(rows, starts[own]) for own, rows in rows_by_key.items()}
    for commit in history.commits:
        if commit.outcome is not Outcome.ACCEPTED or not commit.member:
            continue
        own = GroupPartition(commit.group, commit.partition)
        newer = owners[own].newer(commit) if own in owners else None
        if newer is not None:
            yield Finding(
                rule=ZOMBIE_COMMIT,
                severity=Severity.VIOLATION,
                text=f"{commit.event.client} committed offset {commit.offset} of "
                f"{commit.partition} for group {commit.group}, after {newer.event.client} had "
                "fetched from the partition",
                cause=EARLIER_OWNER,
                partition=commit.partition,
                group=commit.group,
                client=commit.event.client,
                proofs=(newer.event.proof, commit.event.proof),
            )


class _Owners:
    """The deliveries of a partition to the members of a group, in the order of their requests."""

    def __init__(self, rows: View[Delivery], starts: Mapping[Client, Sequence[int]]) -> None:
        self._rows = rows
        self._starts = starts
        """Client → times of its OffsetFetch requests, sorted."""
        self._sent_ns = array("q", map(sent_ns, rows))
        self._indexes: dict[str | None, array[int]] = defaultdict(lambda: array("i"))
        """Member → indexes of its deliveries."""
        for index, row in enumerate(rows):
            self._indexes[row.member].append(index)

    def newer(self, commit: Commit) -> Delivery | None:
        """Return the first delivery to a later owner after those to the member that commits."""
        commit_ns = commit.event.sent_ns
        rows, own = self._rows, self._indexes.get(commit.member, ())
        end = bisect_left(self._sent_ns, commit_ns)
        last = bisect_left(own, end) - 1
        while last >= 0 and not _is_answered_before(rows[own[last]], commit_ns):
            last -= 1
        if last < 0:
            return None
        latest_ns = self._sent_ns[own[last]]
        later = (rows[index] for index in range(own[last] + 1, end))
        return next(
            (
                row
                for row in later
                if row.member != commit.member
                and row.event.sent_ns > latest_ns
                and _is_answered_before(row, commit_ns)
                and self._began_later(row, commit)
            ),
            None,
        )

    def _began_later(self, row: Delivery, commit: Commit) -> bool:
        """Return whether a client got the partition after the one that commits, if it is known."""
        own_ns = self._start_ns(commit.event.client, sent_ns(commit))
        other_ns = self._start_ns(row.event.client, sent_ns(row))
        return own_ns is None or (other_ns is not None and other_ns > own_ns)

    def _start_ns(self, client: Client, before_ns: int) -> int | None:
        times = self._starts.get(client, ())
        count = bisect_left(times, before_ns)
        return times[count - 1] if count else None


def _is_answered_before(row: Delivery, time_ns: int) -> bool:
    return (row.event.answered_ns or 0) < time_ns


def commits_across_incarnations(history: History) -> Iterator[Finding]:
    """Yield accepted commits for a new topic by clients that only fetched from the deleted one.

    A commit names the topic, so the offset of the deleted topic becomes one of the new topic. A
    client that looked the offset up, or commits offset 0, has it from the new topic.
    """
    if not any(commit.partition.incarnation for commit in history.commits):
        return
    looked_up = {(each.event.client, each.partition, each.offset) for each in history.lookups}
    fetched = grouped(
        history.deliveries,
        lambda row: (row.event.client, row.partition.topic, row.partition.number),
    )
    for commit in history.commits:
        partition = commit.partition
        if commit.outcome is not Outcome.ACCEPTED or not partition.incarnation or not commit.offset:
            continue
        if (commit.event.client, partition, commit.offset) in looked_up:
            continue
        rows = fetched.get((commit.event.client, partition.topic, partition.number), ())
        count = bisect_left(rows, commit.event.sent_ns, key=sent_ns)
        if count and rows[count - 1].partition.incarnation < partition.incarnation:
            yield Finding(
                rule=OTHER_INCARNATION,
                severity=Severity.VIOLATION,
                text=f"{commit.event.client} committed offset {commit.offset} of {partition} for "
                f"group {commit.group}, but had fetched only from the topic that was deleted",
                cause=RECREATED_TOPIC,
                partition=partition,
                group=commit.group,
                client=commit.event.client,
                proofs=(rows[count - 1].event.proof, commit.event.proof),
            )
