"""Rules about committed offsets: regressions, delayed and lost commits, commits of zombies."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.effective_commits import GroupPartition, effective_commits
from kafkalite.lab.checker.findings import DELAYED_REQUEST, Finding, Severity
from kafkalite.lab.checker.history import Outcome, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.history import (
        Client,
        Commit,
        CommittedOffset,
        Delivery,
        History,
        LogProof,
        Proof,
    )

REGRESSION: Final = "commit regression"
CONTRADICTED: Final = "contradicted commit"
ZOMBIE_COMMIT: Final = "commit of a zombie"
OTHER_INCARNATION: Final = "commit of a deleted topic's offset"

EARLIER_OWNER: Final = "late commit of an earlier owner"
MOVED_BACK: Final = "position moved back"
ADMINISTRATOR: Final = "administrator"
EXPIRED: Final = "expired or deleted"
LOST_COMMIT: Final = "lost commit"
RECREATED_TOPIC: Final = "recreated topic"


def regressions(history: History) -> Iterator[Finding]:
    """Yield accepted commits of lower offsets than the commit before.

    The order is that of the answers.
    """
    for key, commits in effective_commits(history).items():
        for earlier, later in pairwise(commits):
            if later.commit.offset < earlier.commit.offset:
                yield _regression(history, key, earlier.commit, later.commit)


def _regression(history: History, key: GroupPartition, earlier: Commit, later: Commit) -> Finding:
    cause, severity, reason = _cause(history, earlier, later)
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


def _cause(history: History, earlier: Commit, later: Commit) -> tuple[str, Severity, str]:
    client = later.event.client
    if later.member and history.was_given_up(later.event, later.member):
        reason = f"a request of {client} arrived after the client had opened another connection"
        return DELAYED_REQUEST, Severity.VIOLATION, reason
    if later.is_administrative:
        return ADMINISTRATOR, Severity.NOTE, f"{client} set it"
    if later.member != earlier.member:
        reason = f"{client} committed it as member {later.member}, after {earlier.event.client}"
        return EARLIER_OWNER, Severity.VIOLATION, reason
    return MOVED_BACK, Severity.WARNING, f"{client} committed both"


def contradicted(history: History) -> Iterator[Finding]:
    """Yield answers to OffsetFetch that have another offset than the latest accepted commit.

    The history decides it only if no commit was in flight. If the offset is that of a commit that
    was not answered, this commit took effect after its client had given it up.
    """
    effective = effective_commits(history)
    seen: set[tuple[GroupPartition, int, int]] = set()
    for row in history.committed_offsets:
        key = GroupPartition(row.group, row.partition)
        before = [each for each in effective.get(key, ()) if each.at_ns < row.event.sent_ns]
        if not before or before[-1].commit.offset == row.offset:
            continue
        latest = before[-1].commit
        if _is_in_flight(history, key, latest, row) or (key, before[-1].at_ns, row.offset) in seen:
            continue
        seen.add((key, before[-1].at_ns, row.offset))
        yield _contradiction(history, key, latest, row)


def _is_in_flight(
    history: History, key: GroupPartition, latest: Commit, row: CommittedOffset
) -> bool:
    """Return whether another commit may have taken effect between a commit and an answer.

    A commit without an answer counts from the latest accepted one on.
    """
    until_ns = row.event.answered_ns or row.event.sent_ns
    return any(
        each.group == key.group
        and each.partition == key.partition
        and each is not latest
        and latest.event.sent_ns < each.event.sent_ns < until_ns
        and each.outcome is not Outcome.REFUSED
        for each in history.commits
    )


def _contradiction(
    history: History, key: GroupPartition, latest: Commit, row: CommittedOffset
) -> Finding:
    delayed = [
        each
        for each in history.commits
        if each.outcome is Outcome.UNKNOWN
        and each.group == key.group
        and each.partition == key.partition
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
        is_removed = row.offset < 0
        cause = EXPIRED if is_removed else LOST_COMMIT
        severity = Severity.NOTE if is_removed else Severity.VIOLATION
        client, proofs = latest.event.client, (latest.event.proof, row.event.proof)
        text = "no offset: it expired or was deleted" if is_removed else f"offset {row.offset}"
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


def zombie_commits(history: History) -> Iterator[Finding]:
    """Yield accepted commits of a member after another member had fetched the partition.

    The other member must have begun after the last fetch of the first one (KAFKA-19779, KIP-1251).
    """
    deliveries: dict[GroupPartition, list[Delivery]] = defaultdict(list)
    for row in history.deliveries:
        if row.group is not None and row.member is not None and not row.is_shared:
            deliveries[GroupPartition(row.group, row.partition)].append(row)
    for commit in history.commits:
        if commit.outcome is not Outcome.ACCEPTED or not commit.member:
            continue
        rows = deliveries.get(GroupPartition(commit.group, commit.partition), [])
        newer = _newer_owner(commit, rows)
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


def _newer_owner(commit: Commit, rows: list[Delivery]) -> Delivery | None:
    """Return the first delivery to another member after those to the member that commits.

    The rows are in the order of their requests. The search begins at the commit, because there are
    few deliveries between a commit and the latest one to its member.
    """
    sent_ns = commit.event.sent_ns
    others: list[Delivery] = []
    for index in range(bisect_left(rows, sent_ns, key=_sent_ns) - 1, -1, -1):
        row = rows[index]
        if (row.event.answered_ns or 0) >= sent_ns:
            continue
        if row.member != commit.member:
            others.append(row)
            continue
        later = (each for each in reversed(others) if each.event.sent_ns > row.event.sent_ns)
        return next(later, None)
    return None


def _sent_ns(row: Delivery) -> int:
    return row.event.sent_ns


def commits_across_incarnations(history: History) -> Iterator[Finding]:
    """Yield accepted commits for a new topic by clients that only fetched from the deleted one.

    A commit names the topic, so the offset of the deleted topic becomes one of the new topic.
    """
    fetched: dict[tuple[Client, str], list[Delivery]] = defaultdict(list)
    for row in history.deliveries:
        fetched[row.event.client, row.partition.topic].append(row)
    for commit in history.commits:
        partition = commit.partition
        if commit.outcome is not Outcome.ACCEPTED or not partition.incarnation:
            continue
        earlier = [
            row
            for row in fetched.get((commit.event.client, partition.topic), ())
            if row.event.sent_ns < commit.event.sent_ns and row.partition.number == partition.number
        ]
        if earlier and earlier[-1].partition.incarnation < partition.incarnation:
            yield Finding(
                rule=OTHER_INCARNATION,
                severity=Severity.VIOLATION,
                text=f"{commit.event.client} committed offset {commit.offset} of {partition} for "
                f"group {commit.group}, but had fetched only from the topic that was deleted",
                cause=RECREATED_TOPIC,
                partition=partition,
                group=commit.group,
                client=commit.event.client,
                proofs=(earlier[-1].event.proof, commit.event.proof),
            )
