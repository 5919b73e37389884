"""How often a Java consumer's commits are refused under each fencing rule, counted.

The case that moved KAFKA-19779: members commit while a heartbeat is in flight and others join and
leave. `python -m tests.clients.commit_fencing` takes each rule through 500 rebalances and prints a
table; the broker and the clients are processes of their own. Members commit without pause, or
with `--transactional` every 100 ms in a transaction, which a refused commit aborts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.fencing import FENCING_KEY, RULES
from tests.clients.roster import java_classes
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


# To a transactional producer the broker says that the generation is illegal, and the producer that
# the commit failed.
_STALE_IN_ANY_WORDS = ("member epoch", "CommitFailedException")


class Count(NamedTuple):
    """What one run of the members counted."""

    rule: str
    rebalances: int
    commits: int
    refused: Mapping[str, int]
    """What commits failed with, in the client's words → how often."""
    seconds: float

    @property
    def stale(self) -> int:
        """Commits refused because the member had moved on."""
        return sum(
            count
            for why, count in self.refused.items()
            if any(words in why for words in _STALE_IN_ANY_WORDS)
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
    """Run `java/CommitFencing.java` against a broker that is set to this rule already."""
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    return Count(rule, found["rebalances"], found["commits"], found["refused"], found["seconds"])


def table(counts: Iterator[Count]) -> Iterator[str]:
    """Yield the lines of a Markdown table, each as soon as it is known."""
    yield "| rule | rebalances | commits | refused as stale | other refusals | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for count in counts:
        others = sum(count.refused.values()) - count.stale
        yield (
            f"| {count.rule} | {count.rebalances} | {count.commits} | {count.stale} | {others} | "
            f"{count.seconds:.0f} |"
        )
        yield from (f"  {times} times {why}" for why, times in count.refused.items())


def measured(rebalances: int, members: int, *, is_transactional: bool) -> Iterator[Count]:
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
    chosen = parser.parse_args()
    counts = measured(chosen.rebalances, chosen.members, is_transactional=chosen.transactional)
    for line in table(counts):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
