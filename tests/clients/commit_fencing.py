"""How often the Java consumer is told STALE_MEMBER_EPOCH under each fencing rule, counted.

The case that moved KAFKA-19779: members commit without pause while a heartbeat is in flight and
others join and leave. `python -m tests.clients.commit_fencing` takes each rule through 500
rebalances and prints a table; the broker and the clients are processes of their own.
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
        return sum(count for why, count in self.refused.items() if "member epoch" in why)


def count_refusals(bootstrap: str, rule: str, rebalances: int, members: int = 2) -> Count:
    """Run `java/CommitFencing.java` against a broker that is set to this rule already."""
    command = java_command(
        "CommitFencing",
        bootstrap,
        "orders",
        GROUP,
        str(rebalances),
        str(members),
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
    yield "| rule | rebalances | commits | STALE_MEMBER_EPOCH | other refusals | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for count in counts:
        others = sum(count.refused.values()) - count.stale
        yield (
            f"| {count.rule} | {count.rebalances} | {count.commits} | {count.stale} | {others} | "
            f"{count.seconds:.0f} |"
        )


def measured(rebalances: int, members: int) -> Iterator[Count]:
    """Start a broker for each rule, and count."""
    for rule in RULES:
        with tempfile.TemporaryDirectory() as directory:
            broker = ServedKafkalite(Path(directory), {**CONFIG, FENCING_KEY: rule})
            broker.start()
            try:
                yield count_refusals(broker.bootstrap, rule, rebalances, members)
            finally:
                broker.kill()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rebalances", type=int, default=500, help="of each rule, at least")
    parser.add_argument("--members", type=int, default=2, help="that stay and commit")
    chosen = parser.parse_args()
    for line in table(measured(chosen.rebalances, chosen.members)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
