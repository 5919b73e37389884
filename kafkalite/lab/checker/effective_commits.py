"""Committed offsets in the order in which they took effect."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkalite.lab.checker.history import Outcome, sent_ns
from kafkalite.lab.checker.transaction_outcomes import TransactionOutcomes
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.lab.checker.history import Commit, History, Partition


class GroupPartition(NamedTuple):
    """A partition as a group reads it."""

    group: str
    partition: Partition


class EffectiveCommit(NamedTuple):
    """An accepted commit and the time from which OffsetFetch returns it."""

    at_ns: int
    commit: Commit


def effective_commits(history: History) -> dict[GroupPartition, list[EffectiveCommit]]:
    """Return the accepted commits in the order in which they took effect.

    A commit of a transaction takes effect when EndTxn commits it, and never if it is aborted.
    """
    outcomes = TransactionOutcomes(history)
    found: dict[GroupPartition, list[EffectiveCommit]] = defaultdict(list)
    for commit in history.commits:
        if commit.outcome is not Outcome.ACCEPTED:
            continue
        taken_ns = commit.event.answered_ns
        if commit.is_transactional:
            end = outcomes.end_after(commit.producer_id, commit.producer_epoch, commit.event)
            taken_ns = end.event.answered_ns if end is not None and end.is_commit else None
        if taken_ns is not None:
            key = GroupPartition(commit.group, commit.partition)
            found[key].append(EffectiveCommit(taken_ns, commit))
    for commits in found.values():
        commits.sort(key=at_ns)
    return found


def removal_times(history: History) -> dict[GroupPartition, list[int]]:
    """Return when OffsetFetch answered that a group has no offset, because it was removed."""
    found: dict[GroupPartition, list[int]] = defaultdict(list)
    for row in history.committed_offsets:
        if row.offset < 0:
            found[GroupPartition(row.group, row.partition)].append(sent_ns(row))
    return found


def is_any_between(times: list[int], since_ns: int, until_ns: int) -> bool:
    """Return whether one of some sorted times is between two times."""
    index = bisect_right(times, since_ns)
    return index < len(times) and times[index] <= until_ns


def at_ns(commit: EffectiveCommit) -> int:
    """Return when a commit took effect."""
    return commit.at_ns
