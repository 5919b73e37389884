"""Counts of refused commits of Java consumers under each fencing rule.

The case of KAFKA-19779: members commit while a heartbeat is in flight and others join and leave.
`python -m tests.clients.commit_fencing` runs 500 rebalances under each rule and prints a table. The
broker and the clients are separate processes. Members commit without pause, or with
`--transactional` every 100 ms in a transaction, which a refused commit aborts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.modern.offset_commit_fencing import FENCING_KEY, RULES
from tests.clients.client_libraries import java_classes
from tests.oracle.jars import java_command
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PARTITIONS = 12
GROUP = "committing"
CONFIG: Mapping[str, str] = {
    "num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "20",
    "group.consumer.heartbeat.interval.ms": "20",
}
_SECONDS_PER_REBALANCE = 2.0
_START_S = 60.0
TRANSACTIONAL_EVERY_MS = 100


# The errors of a plain and of a transactional commit. The broker answers the latter with
# ILLEGAL_GENERATION, and the producer raises CommitFailedException.
_STALE_MESSAGES = ("member epoch", "CommitFailedException")


class Count(NamedTuple):
    """Counts of one run of the members."""

    rule: str
    rebalances: int
    commits: int
    refused: Mapping[str, int]
    """Error messages of failed commits → count."""
    seconds: float

    @property
    def stale(self) -> int:
        """Commits refused because the member had a later epoch."""
        return sum(
            count
            for message, count in self.refused.items()
            if any(stale_message in message for stale_message in _STALE_MESSAGES)
        )


def count_refusals(
    bootstrap: str,
    rule: str,
    rebalances: int,
    members: int = 2,
    *,
    every_ms: int = 0,
    is_transactional: bool = False,
) -> Count:
    """Run `java/CommitFencing.java` against a broker with this rule."""
    command = java_command(
        "CommitFencing",
        bootstrap,
        "orders",
        GROUP,
        str(rebalances),
        str(members),
        str(every_ms),
        *(("transactional",) if is_transactional else ()),
        classes=java_classes(),
        log_level="off",
    )
    timeout_s = _START_S + rebalances * _SECONDS_PER_REBALANCE
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout)
    return Count(
        rule, result["rebalances"], result["commits"], result["refused"], result["seconds"]
    )


def table(counts: Iterator[Count]) -> Iterator[str]:
    """Yield the lines of a Markdown table, each as soon as it is measured."""
    yield "| rule | rebalances | commits | refused as stale | other refusals | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for count in counts:
        other_refusals = sum(count.refused.values()) - count.stale
        yield (
            f"| {count.rule} | {count.rebalances} | {count.commits} | {count.stale} "
            f"| {other_refusals} | {count.seconds:.0f} |"
        )
        yield from (f"  {times} times {message}" for message, times in count.refused.items())


def count_by_rule(rebalances: int, members: int, *, is_transactional: bool) -> Iterator[Count]:
    """Start a broker for each rule, and count."""
    for rule in RULES:
        with tempfile.TemporaryDirectory() as directory:
            broker = ServedKafkalite(Path(directory), {**CONFIG, FENCING_KEY: rule})
            broker.start()
            try:
                yield count_refusals(
                    broker.bootstrap,
                    rule,
                    rebalances,
                    members,
                    every_ms=TRANSACTIONAL_EVERY_MS if is_transactional else 0,
                    is_transactional=is_transactional,
                )
            finally:
                broker.kill()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rebalances", type=int, default=500, help="of each rule, at least")
    parser.add_argument("--members", type=int, default=2, help="that stay and commit")
    parser.add_argument("--transactional", action="store_true", help="commit in transactions")
    options = parser.parse_args()
    counts = count_by_rule(
        options.rebalances, options.members, is_transactional=options.transactional
    )
    for line in table(counts):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
