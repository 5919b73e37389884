"""Groups under load: `python -m tests.perf.groups_bench [--check] [--peers kafka,kfake]`.

All results are CPU time of the broker on one core, so that other load on the machine has little
effect; rates are per second of CPU time. `--check` fails if a target is missed. pytest runs only a
small version, in `test_groups.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle.requirements import MissingProgramError, UnavailableError
from tests.perf import (
    groups_big,
    groups_commits,
    groups_expiry,
    groups_idle,
    groups_replay,
    heartbeats,
)
from tests.perf.competitors import broker_factories, start
from tests.perf.groups_records import KINDS
from tests.perf.report import KAFKALITE, machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.perf.pipeline import Rate

_SECONDS = 3.0
_MEMBERS, _PARTITIONS = 1_000, 10_000
_IDLE_KB = (3.0, 3.0, 4.0)
"""By kind; a member of a consumer group has three records and a separate session."""
_MEMORY = "/dev/shm"  # noqa: S108 - a new directory is created in it


class Row(NamedTuple):
    """One line of the table; `target` is the minimum, or the maximum if `less_is_better`."""

    label: str
    value: float
    unit: str
    target: float | None = None
    less_is_better: bool = False
    note: str = ""
    """Additional information, such as a theoretical maximum or the work done."""

    def meets_target(self) -> bool:
        """Whether the value reaches the target."""
        if self.target is None:
            return True
        return self.value <= self.target if self.less_is_better else self.value >= self.target


Rates = tuple[tuple[str, "Callable[[int, int, float], Rate]", float], ...]
RATES: Rates = (
    ("commits, classic member", groups_commits.classic_rate, 50_000),
    ("commits, consumer member", groups_commits.consumer_rate, 50_000),
    ("heartbeats, classic", heartbeats.rate, 400_000),
    (
        "heartbeats, consumer",
        partial(heartbeats.consumer_rate, topic=groups_commits.TOPIC),
        150_000,
    ),
)
"""The requests pipelined in one connection, and the target responses per second per core."""


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--peers", default="", help="also measure the commits of these brokers")
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    rows: list[Row] = []
    for row in measure_all(options.peers, options.groups, options.records):
        rows.append(row)
        sys.stdout.write(format_row(row))
        sys.stdout.flush()
    sys.stdout.write(f"{machine()}\n")
    missed = [row for row in rows if not row.meets_target()] if options.check else []
    sys.stderr.writelines(f"target missed: {format_row(row)}" for row in missed)
    return 1 if missed else 0


def measure_all(peers: str, groups: int, records: int) -> Iterator[Row]:
    """Yield each row when it is measured."""
    for name in [KAFKALITE, *filter(None, peers.split(","))]:
        try:
            yield from _rates(name)
        except (MissingProgramError, UnavailableError) as error:
            sys.stderr.write(f"{name} is not measured: {error}\n")
    yield from _big_group()
    yield from _idle_groups(groups)
    yield from _expiry(groups)
    yield from _replay(records)


def _rates(name: str) -> Iterator[Row]:
    directory = _MEMORY if Path(_MEMORY).is_dir() else None
    with tempfile.TemporaryDirectory(dir=directory) as root:
        broker = broker_factories(Path(root))[name]()
        start(broker)
        try:
            groups_commits.create_topic(broker.port)
            for label, measure, target in RATES:
                rate = measure(broker.port, broker.pid, _SECONDS)
                yield Row(
                    label if name == KAFKALITE else f"{label}: {name}",
                    rate.per_cpu_second,
                    "/s",
                    target if name == KAFKALITE else None,
                )
        finally:
            broker.kill()


def _big_group() -> Iterator[Row]:
    for assignor in ("uniform", "range"):
        label = f"{_MEMBERS} members, {_PARTITIONS} partitions, {assignor}"
        costs = groups_big.measure(assignor, members=_MEMBERS, partitions=_PARTITIONS)
        for change, cost in zip(("all join", "one leaves"), costs, strict=True):
            longest_ms = cost.longest_seconds * 1000
            note = f"{cost.heartbeats} heartbeats, the longest {longest_ms:.0f} ms"
            yield Row(f"{label}: {change}", cost.cpu_seconds, "s", 3.0, True, note)


def _idle_groups(groups: int) -> Iterator[Row]:
    for kind, target in zip(KINDS, _IDLE_KB, strict=True):
        idle = groups_idle.measure(kind, groups)
        note = f"restart with {groups} in {idle.restart_cpu_seconds:.2f} s"
        kilobytes = idle.bytes_per_group / 1024
        yield Row(f"an idle group: {kind}", kilobytes, "KB", target, True, note)


def _expiry(groups: int) -> Iterator[Row]:
    for label, sweep in zip(
        ("finds nothing", "takes all"), groups_expiry.measure(groups), strict=True
    ):
        yield Row(
            f"longest step of an expiry that {label}",
            sweep.longest_seconds * 1000,
            "ms",
            50.0,
            True,
            f"{sweep.steps} steps of {sweep.cpu_seconds:.2f} s for {groups} groups",
        )


def _replay(records: int) -> Iterator[Row]:
    for mix, target in (("typical", 1_000_000.0), ("unique", None)):
        for per_batch in (1, 10):
            replayed = groups_replay.measure(mix, per_batch, records)
            note = f"{replayed.iterated_per_second:,.0f}/s reading only the batch headers"
            yield Row(
                f"records replayed, {mix} keys, {per_batch} in a batch",
                replayed.per_second,
                "/s",
                target,
                note=note,
            )


def format_row(row: Row) -> str:
    """Return a row as a line of the table."""
    digits = 0 if row.unit == "/s" else 2
    target = "" if row.target is None else f"{row.target:,.{digits}f}"
    return f"{row.label:<60}{row.value:>12,.{digits}f} {row.unit:<4}{target:>10}  {row.note}\n"


if __name__ == "__main__":
    sys.exit(main())
